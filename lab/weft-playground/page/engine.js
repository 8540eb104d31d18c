// The thread with the module. One question is asked at a time; of those that come meanwhile, the last one follows.
const ANSWER_MS_MAX = 8000;

class Engine {
  constructor(bytes, source, started, answered) {
    Object.assign(this, { bytes, source, started, answered, asked: null, waiting: null, timer: 0 });
    this.begin();
  }

  begin() {
    const url = URL.createObjectURL(new Blob([this.source], { type: "text/javascript" }));
    this.worker = new Worker(url);
    URL.revokeObjectURL(url);
    this.worker.onmessage = ({ data }) => this.hear(data);
    this.worker.onerror = (event) => this.hear({ failed: event.message });
    this.worker.postMessage({ bytes: this.bytes });
    this.ready = false;
  }

  ask(question) {
    this.waiting = question;
    this.next();
  }

  next() {
    if (!this.ready || this.asked || !this.waiting) return;
    [this.asked, this.waiting] = [this.waiting, null];
    this.worker.postMessage({ question: this.asked });
    this.timer = setTimeout(() => this.stop(), ANSWER_MS_MAX);
  }

  // A question that takes too long is given up, with its thread.
  stop() {
    this.worker.terminate();
    const asked = this.asked;
    this.asked = null;
    this.begin();
    this.answered({ diagnostics: [], error: `no answer within ${ANSWER_MS_MAX / 1000} s` }, asked);
  }

  hear(message) {
    if (message.failed !== undefined) {
      this.answered({ diagnostics: [], error: `WebAssembly does not run here: ${message.failed}` }, null);
      return;
    }
    if (message.start) {
      this.ready = true;
      this.started(message.start);
    } else {
      clearTimeout(this.timer);
      const asked = this.asked;
      this.asked = null;
      this.answered(message.answer, asked);
    }
    this.next();
  }
}

"use strict";
// The module in a thread of its own: the page stays alive whatever it is asked.
// A trap, or memory that has grown, ends the instance, and the next question gets a fresh one.
const MEMORY_MAX = 64 << 20;
const encoder = new TextEncoder();
const decoder = new TextDecoder();
let compiled = null;
let exports = null;

async function fresh() {
  exports = (await WebAssembly.instantiate(compiled, {})).exports;
}

function answer(length) {
  return JSON.parse(decoder.decode(new Uint8Array(exports.memory.buffer, exports.weft_answer(), length)));
}

function ask(question) {
  const bytes = encoder.encode(JSON.stringify(question));
  const at = exports.weft_question(bytes.length);
  if (at === 0) return { diagnostics: [], error: "the texts are too long" };
  new Uint8Array(exports.memory.buffer, at, bytes.length).set(bytes);
  return answer(exports.weft_run());
}

onmessage = async ({ data }) => {
  if (data.bytes) {
    try {
      compiled = await WebAssembly.compile(data.bytes);
      await fresh();
      postMessage({ start: answer(exports.weft_start()) });
    } catch (error) {
      postMessage({ failed: error.message });
    }
    return;
  }
  try {
    if (exports.memory.buffer.byteLength > MEMORY_MAX) await fresh();
    postMessage({ answer: ask(data.question) });
  } catch (error) {
    await fresh();
    postMessage({ answer: { diagnostics: [], error: `the module stopped (${error.message}), which is a bug: please report this text` } });
  }
};

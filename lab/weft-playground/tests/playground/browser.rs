//! The page in headless Chromium. `make playground` builds the page and runs this; elsewhere it is skipped unless the page is there and
//! newer than its sources.

use crate::chromium::Browser;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use weft_units::testing::skip;

/// The folders of a page's sources.
const SOURCES: [&str; 4] =
    ["lab/weft-playground", "product/weft-policy", "product/weft-sched", "product/weft-rank"];

/// The page, or the reason why no page can be tried.
fn page() -> Result<PathBuf, String> {
    if let Some(path) = std::env::var_os("WEFT_PLAYGROUND") {
        return Ok(PathBuf::from(path));
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = root.join("target/playground/weftline-playground.html");
    let built = std::fs::metadata(&path).and_then(|of| of.modified());
    let built = built.map_err(|_| "the page was not built; make playground builds it".to_owned())?;
    let newest = SOURCES.iter().filter_map(|name| newest(&root.join(name))).max();
    match newest.is_some_and(|changed| changed > built) {
        true => Err("the page is older than its sources; make playground builds it".to_owned()),
        false => Ok(path.canonicalize().unwrap_or(path)),
    }
}

/// The time of the last change of a file in a folder, without its tests.
fn newest(folder: &Path) -> Option<SystemTime> {
    let entries = std::fs::read_dir(folder).ok()?.flatten();
    let times = entries.filter(|entry| entry.file_name() != "tests").filter_map(|entry| {
        match entry.file_type().ok()?.is_dir() {
            true => newest(&entry.path()),
            false => entry.metadata().ok()?.modified().ok(),
        }
    });
    times.max()
}

fn has_chromium() -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join("chromium").exists()))
}

/// The text of an element.
const ORDER: &str = "document.getElementById('order-now')?.textContent";

fn policy(browser: &mut Browser) -> String {
    browser.text("document.querySelector('#policy textarea').value")
}

fn arrivals(browser: &mut Browser) -> String {
    browser.text("document.querySelector('#arrivals textarea').value")
}

#[test]
fn browser_the_page_does_what_it_says() {
    let test = "browser_the_page_does_what_it_says";
    let page = match page() {
        Ok(page) => page,
        Err(why) => return skip(test, why),
    };
    if !has_chromium() {
        return skip(test, "chromium is not installed");
    }
    let mut browser = Browser::start();
    size(&mut browser, 1280, 900);
    browser.open(&page, "");
    the_first_example_shows_both_orders(&mut browser);
    picture(&mut browser, "first");
    a_change_of_the_policy_changes_the_order(&mut browser);
    a_mistake_is_told_and_fixed(&mut browser);
    an_arrival_is_dragged_moved_and_removed(&mut browser);
    a_packet_is_added_by_a_click(&mut browser);
    a_link_brings_the_texts_back(&mut browser, &page);
    every_sample_is_shown(&mut browser);
    a_text_that_is_too_long_is_refused(&mut browser);
    a_thread_that_is_given_up_gets_a_successor(&mut browser);
    a_small_screen_is_enough(&mut browser, &page);
    assert_eq!(browser.errors, Vec::<String>::new());
    let local =
        |address: &&String| ["file:", "blob:", "data:", "about:"].iter().any(|own| address.starts_with(own));
    let others: Vec<&String> = browser.requests.iter().filter(|address| !local(address)).collect();
    assert!(others.is_empty() && !browser.requests.is_empty(), "the page asks a network: {others:?}");
}

fn the_first_example_shows_both_orders(browser: &mut Browser) {
    browser.wait(&format!("{ORDER} === 'c a b'"));
    assert_eq!(browser.text("document.getElementById('order-pifo').textContent"), "a c b");
    assert!(browser.text("document.getElementById('order').textContent").contains("✓ as expected"));
    browser.wait("document.getElementById('drawing').complete && document.getElementById('drawing').naturalWidth > 100");
    // Pointing at a packet shows the ranks of its turn.
    let (x, y) = browser.middle(".departed[data-packet='2']");
    browser.mouse("mouseMoved", x, y);
    browser.wait("!document.getElementById('tip').hidden");
    let tip = browser.text("document.getElementById('tip').textContent");
    assert!(tip.contains("edf") && tip.contains("5 us") && tip.contains("9 us"), "{tip}");
    picture(browser, "ranks");
    browser.mouse("mouseMoved", 1.0, 1.0);
    browser.wait("document.getElementById('tip').hidden");
}

fn a_change_of_the_policy_changes_the_order(browser: &mut Browser) {
    browser.type_over("policy", "edf budget 5us of web", "las of web");
    browser.wait(&format!("{ORDER} === 'a c b'"));
    assert_eq!(
        browser.value("document.getElementById('order-pifo')"),
        json!(null),
        "las ranks by what was sent"
    );
    let line = browser.text("document.getElementById('order').textContent");
    assert!(line.contains("expected `c a b`") || line.contains("expected c a b"), "{line}");
}

fn a_mistake_is_told_and_fixed(browser: &mut Browser) {
    browser.type_over("policy", "priority", "priorty");
    browser.wait("document.querySelectorAll('#diagnostics li.error').length === 1");
    let said = browser.text("document.querySelector('#diagnostics li').textContent");
    assert!(said.contains("priority"), "{said}");
    assert!(browser.value("document.querySelectorAll('#policy .error-mark').length > 0") == json!(true));
    picture(browser, "mistake");
    browser.click("#diagnostics .fix");
    browser.wait("document.querySelectorAll('#diagnostics li').length === 0");
    assert!(policy(browser).contains("root = priority { las of web"), "{}", policy(browser));
}

fn an_arrival_is_dragged_moved_and_removed(browser: &mut Browser) {
    browser.drag(".packet[data-packet='0']", 240.0);
    browser.wait(&format!("{ORDER} === 'b c a'"));
    let text = arrivals(browser);
    let line = text.lines().find(|line| line.starts_with("packet a ")).expect("a");
    assert!(line.contains(" at ") && line.contains("deadline 9us"), "{line}");
    browser.value("document.querySelector('.packet[data-packet=\"0\"]').focus()");
    browser.key("ArrowRight");
    browser.wait(&format!("!document.querySelector('#arrivals textarea').value.includes({line:?})"));
    // The packet keeps the focus.
    browser.wait("document.activeElement?.dataset?.packet === '0'");
    browser.key("Delete");
    browser.wait(&format!("{ORDER} === 'b c'"));
    assert!(!arrivals(browser).contains("packet a "), "{}", arrivals(browser));
}

fn a_packet_is_added_by_a_click(browser: &mut Browser) {
    let (x, y) = browser.middle(".packet[data-packet='1']");
    let far = browser.value("document.querySelector('#timeline svg').getBoundingClientRect().right - 30");
    browser.mouse("mousePressed", far.as_f64().expect("a place").max(x), y);
    browser.mouse("mouseReleased", far.as_f64().expect("a place").max(x), y);
    browser.wait(&format!("{ORDER} === 'b c c2'"));
    assert!(arrivals(browser).contains("packet c2 1000 class web flow f2 at "), "{}", arrivals(browser));
}

fn a_link_brings_the_texts_back(browser: &mut Browser, page: &Path) {
    let (policy_text, arrivals_text) = (policy(browser), arrivals(browser));
    let link = browser.text("writeLink()");
    assert!(link.starts_with("#text="), "{link}");
    browser.open(page, &link);
    browser.wait(&format!("{ORDER} === 'b c c2'"));
    assert_eq!((policy(browser), arrivals(browser)), (policy_text, arrivals_text));
    browser.open(page, "#text=AAAA");
    browser.wait(&format!("{ORDER} === 'c a b'"));
    browser.open(page, "#sample=las");
    browser.wait(&format!("{ORDER} === 'A1 A2 A3 B1 B2 A4 A5 A6'"));
    picture(browser, "las");
}

fn every_sample_is_shown(browser: &mut Browser) {
    let names = browser.value("start.samples.map((one) => one.name)");
    for name in names.as_array().expect("names").iter().filter_map(|name| name.as_str()) {
        let before = browser.value("Number(document.body.dataset.answers)");
        browser.value(&format!("choose({name:?})"));
        browser.wait(&format!("Number(document.body.dataset.answers) > {before}"));
        assert_eq!(browser.text("document.getElementById('sample').value"), name);
        let errors = browser.value("document.querySelectorAll('.diagnostics .error').length");
        assert_eq!(errors == json!(0), name != "mistakes", "{name}: {errors} errors");
        picture(browser, &format!("sample-{name}"));
    }
}

fn a_text_that_is_too_long_is_refused(browser: &mut Browser) {
    browser.value("fill('#'.repeat(1 << 20), '', '')");
    browser.wait("document.getElementById('faults').textContent.includes('too long') || document.getElementById('faults').textContent.includes('KiB')");
    browser.value("choose('head')");
    browser.wait(&format!("{ORDER} === 'c a b'"));
}

fn a_thread_that_is_given_up_gets_a_successor(browser: &mut Browser) {
    // The module does not hear this question, and the page does not wait for the time to pass.
    browser.value("engine.worker.postMessage = () => {}; ask(); engine.stop()");
    assert!(browser.text("document.getElementById('faults').textContent").contains("no answer within"));
    browser.value("choose('las')");
    browser.wait(&format!("{ORDER} === 'A1 A2 A3 B1 B2 A4 A5 A6'"));
    assert_eq!(browser.text("document.getElementById('faults').textContent"), "");
}

fn a_small_screen_is_enough(browser: &mut Browser, page: &Path) {
    size(browser, 390, 844);
    browser.open(page, "#sample=head");
    browser.wait(&format!("{ORDER} === 'c a b'"));
    let wide = browser.value("document.documentElement.scrollWidth");
    assert!(wide.as_f64().is_some_and(|wide| wide <= 390.0), "{wide} pixels wide");
    picture(browser, "small");
    browser.click("#theme");
    assert_eq!(browser.text("document.documentElement.style.colorScheme"), "dark");
    picture(browser, "small-dark");
    size(browser, 1280, 900);
    picture(browser, "dark");
}

fn size(browser: &mut Browser, width: u32, height: u32) {
    let metrics = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500 });
    browser.call("Emulation.setDeviceMetricsOverride", metrics);
}

/// A picture for people, where the environment names a folder.
fn picture(browser: &mut Browser, name: &str) {
    if let Some(folder) = std::env::var_os("WEFT_PLAYGROUND_SHOTS") {
        browser.picture(&Path::new(&folder).join(format!("{name}.png")));
    }
}

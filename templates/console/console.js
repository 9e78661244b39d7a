/* Shows that a live page is old, and why: the gateway does not respond, or responds with an error, whose text is shown. */
const stale = document.getElementById("stale");
const silence = stale.firstElementChild.textContent;
const became = (old, why) => {
  stale.firstElementChild.textContent = why;
  stale.hidden = !old;
  document.body.classList.toggle("old", old);
};
for (const name of ["htmx:sendError", "htmx:responseError", "htmx:timeout"]) {
  document.addEventListener(name, ({detail}) => {
    const page = new DOMParser().parseFromString(detail.xhr?.responseText ?? "", "text/html");
    became(true, page.querySelector("main .fault")?.textContent ?? silence);
  });
}
document.addEventListener("htmx:afterSwap", () => became(false, silence));

// The script of the connect page. Without it, links and forms do the same, except in a frame, which needs it.
(() => {
  "use strict";
  const body = document.body;
  const root = document.documentElement;
  const live = document.getElementById("live");
  const framed = "embedded" in body.dataset;
  let token = null; // only in a frame, which stores it nowhere else
  let parentOrigin = null;
  let popup = null;
  let round = 0;
  root.classList.add("script");

  const say = (text) => { live.textContent = text; };
  const main = () => document.getElementById("main");
  const newElement = (name, text, attributes = {}) => {
    const element = document.createElement(name);
    element.textContent = text;
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return element;
  };
  const tellParent = (message) => { if (framed && parentOrigin) window.parent.postMessage(message, parentOrigin); };

  // ── the form ──────────────────────────────────────────────────────────────
  function prepare() {
    for (const button of document.querySelectorAll("[data-reveal]")) {
      const input = document.getElementById(button.dataset.reveal);
      const label = button.getAttribute("aria-label").slice(button.dataset.show.length);
      button.hidden = false;
      button.addEventListener("click", () => {
        const shown = input.type === "password";
        input.type = shown ? "text" : "password";
        button.textContent = shown ? button.dataset.hide : button.dataset.show;
        button.setAttribute("aria-pressed", String(shown));
        button.setAttribute("aria-label", button.textContent + label);
      });
    }
    const dependent = [...document.querySelectorAll("[data-when]")];
    const fit = () => {
      for (const field of dependent) {
        const other = document.getElementsByName(field.dataset.when)[0];
        const wanted = !other || other.value === field.dataset.equals;
        field.hidden = !wanted;
        for (const input of field.querySelectorAll("input, select, textarea")) input.disabled = !wanted;
      }
    };
    if (dependent.length) { main().addEventListener("input", fit); fit(); }
    for (const time of document.querySelectorAll("time[datetime]")) time.textContent = inThisZone(new Date(time.dateTime));
    const search = document.querySelector("[data-search]");
    if (search) search.addEventListener("input", () => filter(search.querySelector("[type=search]").value));
    const wrong = document.querySelector("[aria-invalid]") || (document.querySelector(".fault") && document.querySelector("h1"));
    if (wrong) wrong.focus();
    if (framed) addClose();
  }

  function inThisZone(when) {
    return when.toLocaleString(root.lang, { day: "numeric", month: "long", year: "numeric", hour: "numeric", minute: "2-digit", timeZoneName: "short" });
  }

  function filter(text) {
    const words = text.toLocaleLowerCase().split(/\s+/).filter(Boolean);
    const list = document.querySelector(".choices");
    let count = 0;
    for (const item of list.children) {
      const name = item.dataset.name.toLocaleLowerCase();
      item.hidden = !words.every((word) => name.includes(word));
      if (!item.hidden) count += 1;
    }
    document.querySelector(".none").hidden = count > 0;
    say(count ? list.dataset.found.replace("%n", count) : list.dataset.none);
  }

  function busy(form, is) {
    const button = form.querySelector("button.main");
    if (!button) return;
    if (is) { button.dataset.label = button.textContent; button.textContent = form.dataset.busy || button.textContent; say(button.textContent); }
    else if (button.dataset.label) button.textContent = button.dataset.label;
    button.setAttribute("aria-disabled", String(is));
    form.setAttribute("aria-busy", String(is));
  }

  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (form.matches("[data-search]") && !framed) return;
    if (form.getAttribute("aria-busy") === "true") { event.preventDefault(); return; }
    if (!framed) { busy(form, true); return; }
    if (form.matches("[data-oauth]")) { authorize(form); return; } // the browser then submits it into the window
    event.preventDefault();
    if (form.method === "get") { filter(new FormData(form).get("q") || ""); return; }
    busy(form, true);
    show(form.action, { method: "POST", body: new URLSearchParams(new FormData(form)) }).catch(() => busy(form, false));
  });
  window.addEventListener("pageshow", (event) => {
    if (event.persisted) for (const form of document.forms) busy(form, false);
  });

  // ── in a frame: the same pages, fetched with the token ────────────────────
  async function show(target, options = {}) {
    const url = new URL(target, location.href);
    if (body.dataset.lang && !url.searchParams.has("lang")) url.searchParams.set("lang", body.dataset.lang);
    const headers = { Authorization: `Bearer ${token}`, "Gateway-Embedder": parentOrigin, Accept: "text/html" };
    const response = await fetch(url, { ...options, headers, credentials: "omit", cache: "no-store", referrerPolicy: "no-referrer" });
    // Its style equals that of the current page; its nonce does not, so the browser would only report a CSP violation.
    const text = (await response.text()).replace(/<style[\s\S]*?<\/style>/, "");
    const page = new DOMParser().parseFromString(text, "text/html");
    const fresh = page.getElementById("main");
    if (!fresh) throw new Error("no page");
    main().replaceWith(document.adoptNode(fresh));
    document.title = page.title;
    prepare();
    const event = main().dataset.event;
    if (event) tellParent(JSON.parse(event));
    if (!document.querySelector("[aria-invalid]")) document.querySelector("h1").focus();
  }

  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href]");
    if (!framed || !link || link.target === "_blank" || !token) return;
    event.preventDefault();
    if ("cancel" in link.dataset) tellParent({ type: "close" });
    else show(link.href);
  });

  function addClose() {
    if (document.querySelector(".close")) return;
    const button = newElement("button", "×", { type: "button", class: "close", "aria-label": body.dataset.close });
    button.addEventListener("click", () => tellParent({ type: "close" }));
    const card = document.querySelector(".card");
    card.insertBefore(button, card.firstChild);
  }
  document.addEventListener("keydown", (event) => { if (framed && event.key === "Escape") tellParent({ type: "close" }); });

  function authorize(form) {
    const name = `connect-${Date.now()}`;
    const client = crypto.randomUUID ? crypto.randomUUID() : `${Date.now()}-${Math.random()}`;
    const left = Math.max(0, (screen.width - 520) / 2);
    popup = window.open("", name, `popup=yes,width=520,height=700,left=${left},top=80`);
    if (!popup) { say(form.dataset.blocked); tellParent({ type: "error", payload: { errorType: "blocked_by_browser", errorMessage: form.dataset.blocked } }); warn(form, form.dataset.blocked); form.addEventListener("submit", (again) => again.preventDefault(), { once: true }); return; }
    for (const [key, value] of [["connect_session_token", token], ["ws_client_id", client]]) {
      let hidden = form.querySelector(`input[type=hidden][name="${key}"]`);
      if (!hidden) { hidden = newElement("input", "", { type: "hidden", name: key }); form.append(hidden); }
      hidden.value = value;
    }
    form.target = name;
    setTimeout(() => waitFor(form, client), 0);
  }

  function warn(form, text, detail) {
    let box = document.getElementById("fault");
    if (!box) { box = newElement("div", "", { id: "fault", class: "fault", role: "alert" }); form.before(box); }
    box.replaceChildren(newElement("p", text, {}), ...(detail ? [newElement("p", detail, { class: "support", lang: "en" })] : []));
  }

  async function waitFor(form, client) {
    const mine = (round += 1);
    const before = [...main().childNodes];
    const restore = (text, detail) => { round += 1; main().replaceChildren(...before); busy(form, false); if (text) warn(form, text, detail); document.querySelector("h1").focus(); };
    const cancel = newElement("button", form.dataset.cancel, { type: "button", class: "quiet" });
    const waiting = newElement("div", "", { class: "spinner", "aria-hidden": "true" });
    cancel.addEventListener("click", () => { if (popup) popup.close(); restore(""); });
    const after = newElement("p", "", { class: "after" });
    after.append(cancel);
    main().replaceChildren(newElement("h1", form.dataset.waitingTitle, { tabindex: "-1" }), newElement("p", form.dataset.waiting, { class: "middle" }), waiting, after);
    document.querySelector("h1").focus();
    let closed = 0;
    while (mine === round) {
      await new Promise((resolve) => { wake = resolve; setTimeout(resolve, 700); });
      if (mine !== round) return;
      const found = await outcome(client).catch(() => null);
      if (mine !== round) return;
      if (found && found.connections.length) { round += 1; if (popup && !popup.closed) setTimeout(() => popup.close(), 500); return done(form, found.connections[0]); }
      if (found && found.error) { tellParent({ type: "error", payload: { errorType: found.error.type, errorMessage: found.error.message } }); const advices = JSON.parse(form.dataset.advices || "{}"); return restore(advices[found.error.code] || advices.other || found.error.message, found.error.message); }
      closed = popup && popup.closed ? closed + 1 : 0;
      if (closed > 2) { tellParent({ type: "error", payload: { errorType: "window_closed", errorMessage: form.dataset.closed } }); return restore(form.dataset.closed); }
    }
  }
  let wake = () => {};

  async function outcome(client) {
    const url = new URL(body.dataset.result, location.href);
    url.searchParams.set("client", client);
    const response = await fetch(url, { headers: { Authorization: `Bearer ${token}` }, credentials: "omit", cache: "no-store" });
    return response.ok ? (await response.json()).data : null;
  }

  function done(form, connection) {
    const url = new URL(form.action);
    url.searchParams.set("connected", connection.connection_id);
    const payload = { providerConfigKey: connection.provider_config_key, connectionId: connection.connection_id, isPending: connection.is_pending };
    return show(url).catch(() => tellParent({ type: "connect", payload }));
  }

  window.addEventListener("message", (event) => {
    const data = event.data;
    if (!data || typeof data !== "object") return;
    if (framed && event.source === window.parent && data.type === "session_token" && typeof data.sessionToken === "string") {
      if (token || !trusted(event.origin)) return;
      [token, parentOrigin] = [data.sessionToken, event.origin];
      tellParent({ type: "settings_changed", payload: JSON.parse(body.dataset.settings) });
      show(body.dataset.base);
      return;
    }
    if (event.source === popup && event.origin === location.origin && String(data.type).startsWith("nango_oauth_callback_")) {
      if (data.type !== "nango_oauth_callback_error") popup.postMessage({ type: "nango_oauth_callback_ack" }, location.origin);
      wake();
    }
  });
  const trusted = (origin) => body.dataset.embedders.split(" ").some((known) => known === origin || (known.endsWith(":*") && (origin === known.slice(0, -2) || origin.startsWith(known.slice(0, -1)))));

  // ── the end of an authorization, in the window that was opened for it ─────
  function tellOpener() {
    const kind = main().dataset.tells;
    if (!kind) return;
    if (location.pathname.endsWith("/oauth/callback")) history.replaceState(null, "", location.pathname);
    const message = { type: `nango_oauth_callback_${kind}` };
    if (kind === "error") message.payload = JSON.parse(main().dataset.payload);
    // The opener is a page of the application, or our own page in a frame. Only registered origins and our own receive the
    // message; if no origin is registered, any page receives it.
    if (window.opener) for (const origin of main().dataset.openers.split(" ")) window.opener.postMessage(message, origin);
    let channel = null;
    const ended = (event) => { if (event.data && event.data.type === "nango_oauth_callback_ack") window.close(); };
    if (window.BroadcastChannel) { channel = new BroadcastChannel("nango-oauth-callback"); channel.postMessage(message); channel.addEventListener("message", ended); }
    window.addEventListener("message", ended);
    if ((kind === "success" || "closes" in main().dataset) && window.opener) setTimeout(() => window.close(), 500);
  }

  prepare();
  tellOpener();
  if (framed && window.parent !== window) window.parent.postMessage({ type: "ready" }, "*");
})();

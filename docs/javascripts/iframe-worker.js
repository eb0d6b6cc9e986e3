// The site's search runs in a Worker, which browsers refuse to pages from disk. There a hidden frame takes its place.
// By the name of this file Material's plugin "offline" knows that it need not load one from the network.
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(address) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.title = "Search";
      document.body.append(this.frame); // it has no document of its own, so that this page may reach into it
      const inside = this.frame.contentWindow;
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      inside.importScripts = (...addresses) =>
        addresses.reduce((before, each) => before.then(() => this.load(each)), Promise.resolve());
      this.begun = this.load(address);
      this.begun.catch(() => this.dispatchEvent(new ErrorEvent("error")));
    }

    load(address) {
      return new Promise((resolve, reject) => {
        const script = this.frame.contentDocument.createElement("script");
        Object.assign(script, { src: new URL(address, location).href, onload: resolve, onerror: reject });
        this.frame.contentDocument.head.append(script);
      });
    }

    postMessage(data) {
      this.begun.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })), () => {});
    }

    terminate() {
      this.frame.remove();
    }
  };
  window.Worker = window.IFrameWorker;
}

/* Browsers start no worker from a file on disk. There the search runs in a hidden frame instead. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      this.waiting = []
      document.body.append(this.frame)
      const inside = this.frame.contentWindow
      inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
      inside.importScripts = (...urls) => Promise.all(urls.map(next => this.load(next)))
      this.load(url).then(() => {
        for (const data of this.waiting.splice(0)) this.deliver(data)
        this.waiting = null
      })
    }

    load(url) {
      return new Promise((done, failed) => {
        const script = this.frame.contentDocument.createElement("script")
        Object.assign(script, { src: url, onload: done, onerror: failed })
        this.frame.contentDocument.body.append(script)
      })
    }

    deliver(data) {
      this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }))
    }

    postMessage(data) {
      this.waiting === null ? this.deliver(data) : this.waiting.push(data)
    }

    terminate() {
      this.frame.remove()
    }
  }
}

// The latest revisions of a zone, as they commit.

import { optional } from './route.js'

const pause = milliseconds => new Promise(resolve => setTimeout(resolve, milliseconds))

/** Follows a zone by its stream. Sends `change` for news, and `refused` if the server wants a token. */
export class Live extends EventTarget {
  /** The latest, newest first; nothing if the sender may not see them. */
  revisions
  tables
  /** `open`, `waiting`, or `absent` if the sender may not follow. */
  state = 'connecting'
  revision
  /** Whether that is all. */
  hasAll = false
  #stop
  #settle
  #isAsking = false
  #isStale = false

  constructor(client) {
    super()
    this.client = client
    this.ready = new Promise(resolve => { this.#settle = resolve })
  }

  stop() { this.#stop?.abort() }

  /** Reads the present state, then follows the stream. */
  async start() {
    this.stop()
    this.#stop = new AbortController()
    const { signal } = this.#stop
    while (!signal.aborted) {
      try {
        const [{ tables, revision }] = await Promise.all([this.client.read('tables'), this.fill(20)])
        this.tables = tables
        this.revision = revision
        this.#settle()
        const onState = state => this.#set(state)
        for await (const page of this.client.changes(revision, { limit: 1000, columns: 'changed', signal, onState })) {
          this.revision = Math.max(this.revision, page.revision)
          this.#refresh()
        }
      } catch (error) {
        if (signal.aborted) return
        this.failure = error
        if (error.status === 401) return this.dispatchEvent(new Event('refused'))
        const isAbsent = error.status === 403 || error.status === 404
        this.#set(isAbsent ? 'absent' : 'waiting')
        this.#settle()
        if (isAbsent) return
        await pause(3000)
      }
    }
  }

  /** Asks for the new revisions, at most twice a second. */
  async #refresh() {
    this.#isStale = true
    if (this.#isAsking) return
    this.#isAsking = true
    while (this.#isStale && !this.#stop.signal.aborted) {
      this.#isStale = false
      try { if (this.revisions) await this.fill(20) } catch { break }
      this.dispatchEvent(new Event('change'))
      await pause(500)
    }
    this.#isAsking = false
  }

  async fill(limit) {
    const answer = await optional(this.client.read('revisions', { limit }))
    if (!answer) return
    this.hasAll ||= !answer.next
    const known = new Map([...this.revisions ?? [], ...answer.revisions].map(entry => [entry.revision, entry]))
    this.revisions = [...known.values()].sort((left, right) => right.revision - left.revision).slice(0, 1000)
  }

  #set(state) {
    if (state === 'open') this.failure = undefined
    if (this.state === state) return
    this.state = state
    this.dispatchEvent(new Event('change'))
  }
}

// A small client for web pages: rows over HTTP, as in Docs/REST.md.
//
//     const zone = new Tidemark('https://sync.example', { token })
//     const player = await zone.get('player', 7)
//     await zone.patch('player', player, { goals: player.goals + 1 })

/**
 * An error of the server: `message`; `code`, its stable name; `fix`, what to do; `status` of HTTP, 0 without an answer;
 * `place`; of a refused write `reasons`, `current`, the record as it is now, and `index`, the entry of a batch.
 */
export class Problem extends Error {
  constructor(body, status) {
    const { title, message, detail, fix, code, place, reasons, current, index } = body.error ?? body
    super(title ?? message ?? `The server answered ${status}.`)
    Object.assign(this, { name: 'Problem', code, fix: detail ?? fix ?? '', status, place, current, index })
    this.reasons = reasons ?? []
  }
}

const encode = encodeURIComponent

/** Reads JSON; integers beyond 2^53 - 1 become BigInt. */
export const parse = text =>
  JSON.parse(text, (_, value) => typeof value?.$int === 'string' ? BigInt(value.$int) : value)

/** Writes JSON; a BigInt becomes an integer. */
export const stringify = value =>
  JSON.stringify(value, (_, part) => typeof part === 'bigint' ? { $int: `${part}` } : part)

/** A key's segment of a path: of a value, of an array of parts, or of a record. */
export function keyPath(key) {
  if (key?.$key !== undefined) return key.$key
  return [key].flat().map(part => encode(typeof part === 'object' ? stringify(part) : part)).join(',')
}

const columns = record =>
  Object.fromEntries(Object.entries(record).filter(([name]) => !/^\$(?!\$)/.test(name)))

/** A UUID; `crypto.randomUUID` exists in secure contexts only. */
const uuid = () => '10000000-1000-4000-8000-100000000000'.replace(/[018]/g, digit =>
  (digit ^ crypto.getRandomValues(new Uint8Array(1))[0] & 15 >> digit / 4).toString(16))

const pause = (milliseconds, signal) => new Promise(resolve => {
  const timer = setTimeout(resolve, milliseconds)
  signal?.addEventListener('abort', () => { clearTimeout(timer); resolve() }, { once: true })
})

/**
 * A zone of a server.
 *
 * Records are objects of columns, with `$key`, `$revision` and `$tag`. A write with the tag is refused if somebody has
 * changed the record since.
 */
export class Tidemark {
  /** Takes the server's address, such as `https://sync.example`; the zone, and the token. */
  constructor(url, { zone = 'main', token } = {}) {
    this.url = `${url}`.replace(/\/$/, '')
    this.zone = zone
    this.token = token
  }

  /** Sends a request to a path of the zone, or of the server if it begins with `/`. Throws `Problem`. */
  async request(method, path, { params, headers, body, signal } = {}) {
    const base = path.startsWith('/') ? this.url : `${this.url}/zones/${encode(this.zone)}/`
    const query = params ? `?${new URLSearchParams(params)}`.replaceAll('+', '%20') : ''
    const response = await fetch(`${base}${path}${query}`, {
      method,
      signal,
      cache: 'no-store',
      headers: {
        Accept: 'application/json',
        ...this.token && { Authorization: `Bearer ${this.token}` },
        ...body !== undefined && { 'Content-Type': 'application/json' },
        ...headers
      },
      body: body === undefined ? undefined : stringify(body)
    }).catch(error => {
      if (signal?.aborted) throw error
      throw new Problem({ code: 'unreachable', title: 'The server cannot be reached.' }, 0)
    })
    if (response.ok) return response
    const text = await response.text()
    let problem = {}
    try { problem = parse(text) } catch { problem.title = text.slice(0, 200) || undefined }
    if (problem.current) problem.current.$tag = response.headers.get('ETag') ?? undefined
    throw new Problem(problem, response.status)
  }

  /** Reads JSON of a path. */
  async read(path, params, signal) { return parse(await (await this.request('GET', path, { params, signal })).text()) }

  async #record(response, key) {
    const record = parse(await response.text() || '{}')
    const place = response.headers.get('Location')
    record.$key ??= place ? new URL(place, this.url).pathname.split('/').pop() : keyPath(key)
    record.$tag = response.headers.get('ETag') ?? undefined
    return record
  }

  #path(table, key) { return `tables/${encode(table)}${key === undefined ? '' : `/${keyPath(key)}`}` }

  /** The records of a table: `for await (const player of zone.list('player', {goals: 'gt.3'}))`. */
  async * list(table, params = {}) {
    for await (const page of this.pages(table, params)) yield* page.records
  }

  /** The pages of a list; each has `records`, `since` and `next`. */
  async * pages(table, params = {}) {
    const query = new URLSearchParams(params)
    for (;;) {
      const page = await this.read(this.#path(table), query)
      for (const record of page.records) record.$tag = `"${record.$revision}@${page.state}"`
      yield page
      if (!page.next) return
      query.set('after', page.next)
    }
  }

  /** Reads a record by its key. */
  async get(table, key, params) {
    return this.#record(await this.request('GET', this.#path(table, key), { params }), key)
  }

  /** Creates a record. A repeated call with the same `id`, a UUID, has no second effect. */
  async create(table, values, id = uuid()) {
    const headers = { 'Idempotency-Key': id }
    return this.#record(await this.request('POST', this.#path(table), { headers, body: columns(values) }))
  }

  /** Changes columns of a record that was read before, or with a plain key of the record as it is now. */
  async patch(table, record, changes) {
    const headers = { 'If-Match': record?.$tag ?? '*' }
    const body = columns(changes)
    return this.#record(await this.request('PATCH', this.#path(table, record), { headers, body }), record)
  }

  /** Replaces a record; creates one if `values` has no tag. */
  async put(table, key, values) {
    const headers = values.$tag ? { 'If-Match': values.$tag } : { 'If-None-Match': '*' }
    return this.#record(await this.request('PUT', this.#path(table, key), { headers, body: columns(values) }), key)
  }

  /** Deletes a record as it was read, or with a plain key as it is now. */
  async remove(table, record) {
    await this.request('DELETE', this.#path(table, record), { headers: { 'If-Match': record?.$tag ?? '*' } })
  }

  /** Sends writes, all or none: `[{method: 'POST', path: 'tables/team', body: {id: -1}}]`. */
  async batch(requests, { atomic = true, id = uuid() } = {}) {
    const body = { atomic, requests }
    const response = await this.request('POST', 'batch', { headers: { 'Idempotency-Key': id }, body })
    return parse(await response.text()).responses
  }

  /**
   * What changes after a revision, page by page, without an end: stop it by `signal`, or leave the loop.
   *
   * `since` is a revision, a cursor or a time. `onState` is called with `open` or `waiting`; others are parameters.
   * Survives cuts of the network. Throws `Problem` if it cannot go on: after 410, list the tables again.
   */
  async * changes(since, { signal, onState, ...params } = {}) {
    const place = { since, params, signal, onState, isStreaming: true, failures: 0 }
    while (!signal?.aborted) {
      try {
        yield* place.isStreaming ? this.#stream(place) : this.#poll(place, 5_000)
      } catch (error) {
        if (signal?.aborted) return
        if (error.status >= 400 && error.status < 500 && error.status !== 429) throw error
        place.failures += 1
      }
      if (signal?.aborted) return
      onState?.('waiting')
      const most = Math.min(30_000, 500 * 2 ** place.failures)
      if (place.failures) await pause(most * (0.5 + Math.random() / 2), signal)
    }
  }

  /** One connection; polling follows where a proxy holds it back. */
  async * #stream(place) {
    const { params, signal, since, id, onState } = place
    const connection = new AbortController()
    const stop = () => connection.abort()
    signal?.addEventListener('abort', stop)
    let timer = setTimeout(() => { place.isStreaming = false; stop() }, 15_000)
    try {
      const headers = { Accept: 'text/event-stream', ...id && { 'Last-Event-ID': id } }
      const query = { params: { ...params, since }, headers, signal: connection.signal }
      const response = await this.request('GET', 'changes', query)
      place.isStreaming = /event-stream/.test(response.headers.get('Content-Type')) && !!response.body
      if (!place.isStreaming) return
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader()
      let rest = ''
      for (;;) {
        const { value, done } = await reader.read()
        clearTimeout(timer)
        if (done) break
        // The server speaks every half a minute: silence is a cut.
        timer = setTimeout(stop, 90_000)
        onState?.('open')
        const events = (rest + value).replaceAll('\r\n', '\n').split('\n\n')
        rest = events.pop()
        for (const event of events) yield* this.#pages(event, place)
      }
      place.failures += 1
    } finally {
      clearTimeout(timer)
      signal?.removeEventListener('abort', stop)
      stop()
    }
  }

  /** The page of an event; a large one is only announced, and read by itself. */
  async * #pages(event, place) {
    const lines = event.split('\n')
    const field = name => lines.find(line => line.startsWith(`${name}:`))?.slice(name.length + 1).trim()
    const page = parse(field('data') ?? '{}')
    if (field('event') === 'large') yield* this.#poll(place)
    if (page.changes?.length) yield page
    place.since = page.next ?? place.since
    place.id = field('id') ?? place.id
    if (page.next) place.failures = 0
  }

  /** Pages by requests: all that are there, or without an end, with a pause in milliseconds. */
  async * #poll(place, rest) {
    for (;;) {
      const query = { ...place.params, since: place.since }
      const page = await this.read('changes', query, place.signal)
      place.onState?.('open')
      place.since = page.next
      place.failures = 0
      if (page.changes.length) yield page
      if (page.more) continue
      if (!rest || place.signal?.aborted) return
      await pause(rest, place.signal)
    }
  }
}

// The numbers of the server, each with what to do when it is high.

import { card, count, duration, empty, grid, h, head, number, size, span } from './dom.js'
import { metrics } from './metrics.js'

/** More is in Docs/OPERATIONS.md. */
const advice = {
  conflicts_total: 'Several percent of the pushes: look at policies.',
  repeats_total: 'Answers get lost: a proxy with a short time limit, a bad network.',
  refusals_total: 'internalFailure: a defect. storageFailed: the store. malformedRequest: a foreign client.',
  request_duration_seconds: 'If commits are fast, the network is slow.',
  requests_in_flight: 'Near 4,096, connections wait.',
  in_flight_bytes: 'Near --memory, large requests wait and then get 503.',
  in_flight_refusals_total: 'Give more --memory.',
  lag_revisions: 'Devices were away for long, or cannot sync.',
  requests_waiting: 'The store is too slow.',
  group_size_requests: 'Near 64 with many waiting, the zone is at its limit.',
  commit_duration_seconds: 'A slow disk, a program that locks the file, large change sets.',
  commit_failures_total: 'Above 0: a full or failing disk, or a long lock. See the log.',
  damaged_log_entries_total: 'Above 0: a failing disk, or a program that writes into the log.',
  cache_misses_total: 'Devices are far behind, or have older tables.',
  shared_cache_misses_total: 'With several nodes: Redis is gone or too small.',
  listeners: 'Near the bound, more fall back to polling.',
  wal_bytes: 'A program holds a read transaction open.',
  disk_free_bytes: 'When it is low: a full disk stops all commits.'
}
const alarms = ['commit_failures_total', 'damaged_log_entries_total']

export async function show({ client, signal }) {
  const place = card()
  const ready = h('p', { 'aria-live': 'polite' })
  const machine = h('div', { class: 'facts' })
  const draw = async () => {
    const failure = await client.request('GET', '/readyz').then(() => undefined, error => error)
    const text = failure ? `${failure.message} ${failure.fix}` : 'The server accepts requests, and its store answers.'
    if (ready.textContent !== text) ready.replaceChildren(span(failure ? 'bad' : 'good', text))
    const page = await metrics(client)
    const left = place.firstChild?.scrollLeft ?? 0
    machine.replaceChildren(...page ? facts(page) : [])
    place.replaceChildren(page ? table(page) : empty('The numbers are for an administrator\'s token.'))
    place.firstChild.scrollLeft = left
  }
  await draw()
  const timer = setInterval(() => { if (!document.hidden) draw().catch(() => {}) }, 5000)
  signal.addEventListener('abort', () => clearInterval(timer))
  return [head('Health'), ready, machine, place]
}

/** What an operator looks for first, as far as the server tells it. */
function facts(page) {
  const of = name => page.samples.find(sample => sample.name === name)?.value
  const start = of('process_start_time_seconds')
  const free = of('tidemark_disk_free_bytes')
  return [['Up for', start && duration(Date.now() / 1000 - start)],
    ['Memory', of('process_resident_memory_bytes')], ['Data', of('tidemark_data_bytes')],
    ['WAL', of('tidemark_wal_bytes')],
    ['Disk', free !== undefined && `${size(free)} free of ${size(of('tidemark_disk_size_bytes'))}`]]
    .filter(([, data]) => data !== undefined && data !== false)
    .map(([title, data]) => card(h('h2', {}, title), h('strong', {}, typeof data === 'number' ? size(data) : data)))
}

function table(page) {
  const titles = [['Metric'], ['Now', { right: true }], ['Is', { hide: true }], ['When it is high', { name: true }]]
  return grid('Metrics', titles, Object.entries(page.helps).map(([name, help]) => {
    const short = name.replace(/^tidemark_/, '')
    return [h('code', {}, name), reading(page, name, alarms.includes(short)), help, advice[short] ?? '']
  }), 'stacked')
}

/** The value of a metric with its parts, or the mean of a histogram. */
function reading(page, name, isAlarm) {
  const amount = data => name.endsWith('time_seconds') ? new Date(data * 1000).toLocaleString()
    : name.endsWith('_seconds') ? `${number(Math.round(data * 10_000) / 10)} ms`
    : name.endsWith('_bytes') ? size(data) : number(Math.round(data * 10) / 10)
  const small = (...parts) => span('dim small', h('br'), parts)
  const times = page.total(`${name}_count`)
  if (times) {
    return [`${amount(page.total(`${name}_sum`) / times)} mean`, small(count(times, 'time'))]
  }
  const samples = page.samples.filter(sample => sample.name === name)
  if (samples[0]?.labels.version) return samples[0].labels.version
  const parts = samples.filter(({ labels, value }) => labels.code && value)
  return [span(isAlarm && page.total(name) ? 'bad' : '', amount(page.total(name))),
    parts.map(({ labels, value }) => small(`${labels.code} ${number(value)}`))]
}

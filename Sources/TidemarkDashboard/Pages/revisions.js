// What happened, newest first; one revision with its changes.

import { keyPath, stringify } from '../client/tidemark.js'
import { a, author, card, dim, empty, h, head, member, number, pager, recordLink, span, summary, time } from './dom.js'
import { lines, revisionLine } from './overview.js'
import { changes, verb } from './record.js'
import { link, optional } from './route.js'

const shownMax = 50

export async function show({ client, live, parts, query }) {
  if (parts.length) return one(client, live, Number(parts[0]), Number(query.get('from')) || 0)
  const params = Object.fromEntries(query)
  const page = await client.read('revisions', { limit: 50, ...params })
  const { before, ...filter } = params
  return [head('Revisions'), h('div', { class: 'card stack' }, filters(live, filter),
    page.revisions.length ? lines(page.revisions.map(entry => revisionLine(entry))) : empty('No revisions in the log.'),
    pager(before && a(link('revisions', filter), 'Newest'),
      page.next && a(link('revisions', { ...filter, before: page.next }), 'Older →')))]
}

function filters(live, { table, author = '' }) {
  const submit = event => {
    event.preventDefault()
    const filter = [['table', tables.value], ['author', by.value.trim()]]
    location.hash = link('revisions', filter.filter(([, text]) => text))
  }
  const tables = h('select', { id: 'table', onchange: submit }, h('option', { value: '' }, 'all'),
    (live.tables ?? []).map(({ name }) => h('option', { selected: name === table }, name)))
  const by = h('input', { id: 'author', value: author, placeholder: 'a device or a user', dir: 'auto', size: 18 })
  return h('form', { onsubmit: submit }, h('label', { for: 'table' }, 'Table'), tables,
    h('label', { for: 'author' }, 'Author'), by, h('button', {}, 'Filter'))
}

/** A name that the protocol would take for its own has a sign before it. */
const plain = name => name.replace(/^=/, '')

/** The changes of a change set, one a record. */
function records(set) {
  return (set?.types ?? []).flatMap(table => {
    const { attributes, ...keys } = set[table]
    return ['create', 'update', 'delete'].flatMap(operation => keys[operation].map(key => {
      const { revision, ...values } = attributes[typeof key === 'object' ? stringify(key) : key] ?? {}
      const after = Object.entries(values).map(([name, data]) => [member(plain(name)), data])
      return { table: plain(table), key: keyPath(key), operation, after: Object.fromEntries(after) }
    }))
  })
}

async function one(client, live, revision, from) {
  const entry = await client.read(`revisions/${revision}`)
  const all = records(entry.changes)
  const shown = all.slice(from, from + shownMax)
  // A revision has the values after it; those before it stand in the history of each record.
  await Promise.all(shown.map(async change => {
    if (change.operation === 'create') return
    const path = `tables/${encodeURIComponent(change.table)}/${change.key}/history`
    const past = await optional(client.read(path, { before: revision + 1, limit: 1 }))
    if (past?.history[0]?.revision === revision) Object.assign(change, past.history[0])
  }))
  const part = change => card(h('div', { class: 'head' }, recordLink(change.table, change.key), verb(change.operation)),
    changes(change))
  const to = (other, title) => a(link(`revisions/${other}`), title)
  const page = (start, title) => a(link(`revisions/${revision}`, start > 0 ? { from: start } : {}), title)
  const end = from + shown.length
  return [head(`Revision ${number(revision)}`, dim(time(entry.committed), ' by ', author(entry)),
    dim(summary(entry.tables)), span('push bar', revision > 1 && to(revision - 1, '← Previous'),
      !(revision >= live.revision) && to(revision + 1, 'Next →'))),
  shown.length ? shown.map(part) : card(empty('No records.')),
  all.length > shownMax && pager(from > 0 && page(from - shownMax, '← Records before'),
    end < all.length && page(end, 'More records →'),
    dim(`Records ${number(from + 1)} to ${number(end)} of ${number(all.length)}`))].flat()
}

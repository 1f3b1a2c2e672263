// What happened, newest first; one revision with its changes.

import { keyPath, stringify } from '../client/tidemark.js'
import { a, author, card, dim, empty, h, head, number, pager, recordLink, span, summary, time } from './dom.js'
import { lines, revisionLine } from './overview.js'
import { changes, verb } from './record.js'
import { link, optional } from './route.js'

const beforesMax = 20
const shownMax = 200

export async function show({ client, live, parts, query }) {
  if (parts.length) return one(client, Number(parts[0]))
  const params = Object.fromEntries(query)
  const page = await client.read('revisions', { limit: 50, ...params })
  const { before, ...filter } = params
  return [head('Revisions'), h('div', { class: 'card stack' }, filters(live, filter),
    page.revisions.length ? lines(page.revisions.map(entry => revisionLine(entry))) : empty('No revisions.'),
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

/** The changes of a change set, one a record. */
function records(set) {
  return (set?.types ?? []).flatMap(table => {
    const { attributes, ...keys } = set[table]
    return ['create', 'update', 'delete'].flatMap(operation => keys[operation].map(key => {
      const { revision, ...after } = attributes[typeof key === 'object' ? stringify(key) : key] ?? {}
      return { table, key: keyPath(key), operation, after }
    }))
  })
}

async function one(client, revision) {
  const entry = await client.read(`revisions/${revision}`)
  const list = records(entry.changes)
  // A revision has the values after it; those before it stand in the history of each record.
  await Promise.all(list.slice(0, beforesMax).map(async change => {
    if (change.operation === 'create') return
    const path = `tables/${encodeURIComponent(change.table)}/${change.key}/history`
    const past = await optional(client.read(path, { before: revision + 1, limit: 1 }))
    if (past?.history[0]?.revision === revision) Object.assign(change, past.history[0])
  }))
  const part = change => card(h('div', { class: 'head' }, recordLink(change.table, change.key), verb(change.operation)),
    changes(change))
  const to = (other, title) => a(link(`revisions/${other}`), title)
  return [head(`Revision ${number(revision)}`, dim(time(entry.committed), ' by ', author(entry)),
    dim(summary(entry.tables)), span('push bar', to(revision - 1, '← Previous'), to(revision + 1, 'Next →'))),
  list.length ? list.slice(0, shownMax).map(part) : card(empty('No records.')),
  list.length > shownMax && card(empty(`${number(list.length - shownMax)} more are not shown.`))].flat()
}

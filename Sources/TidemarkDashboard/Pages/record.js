// One record: its columns, its relatives, its history, and how it was at a revision.

import { stringify } from '../client/tidemark.js'
import {
  a, author, card, columnOf, columnsOf, dim, empty, fields, h, head, member, number, problem, span, time, value, words
} from './dom.js'
import { link, optional, tableLink } from './route.js'
import { equalsLink, listed, parentLinks } from './tables.js'

export async function show({ client, parts }) {
  const path = `tables/${parts[0]}/${parts[1]}`
  const name = decodeURIComponent(parts[0])
  const [{ tables }, present, past] = await Promise.all([client.read('tables'),
    optional(client.get(name, { $key: parts[1] }, { truncate: 500 })),
    optional(client.read(`${path}/history`))])
  const table = tables.find(one => one.name === name)
  const history = past?.history ?? []
  if (!table || !present && !history.length) {
    return card(empty('There is no such record, or your token may not see it.'))
  }
  const place = card()
  const draw = index => place.replaceChildren(h('h2', {}, 'Columns'),
    columns(table, recordAt(present, history, index), present, column => whole(client, name, parts[1], column)))
  draw(0)
  const title = [a(tableLink(name), words(name)), ' ', words(decodeURIComponent(parts[1]))]
  return [head(title, present ? dim(`at revision ${number(present.$revision)}`) : span('bad', 'deleted'),
    span('push', copyButton(client, path))), history.length > 0 && slider(history, draw),
  h('div', { class: 'two' }, h('div', { class: 'stack' }, place, present && relatives(table, tables, present)),
    historyPart(history, past, client, path))]
}

/** The record as it was before the latest `index` changes; nothing if it was not there. */
export function recordAt(present, history, index) {
  let state = present
  for (const { operation, before } of history.slice(0, index)) {
    state = operation === 'create' ? undefined : { ...state, ...before }
  }
  return state
}

export const same = (left, right) => stringify(left) === stringify(right)

function columns(table, state, present, more) {
  if (!state) return empty('The record was not there.')
  const parent = parentLinks(table)
  return fields('Columns', ['Column', 'Value'], table.columns.map(({ name }) => {
    const data = state[member(name)]
    const href = parent(name, data)
    const isOld = present && !same(data, present[member(name)])
    return [name, h('td', { class: isOld && 'after' }, href ? a(href, value(data)) : value(data),
      data?.$cut?.type === 'text' && !isOld && [' ', more(name)])]
  }), 'quiet')
}

function whole(client, table, $key, column) {
  const load = async ({ target }) => {
    target.disabled = true
    try {
      const record = await client.get(table, { $key }, { select: listed(column) })
      target.parentElement.replaceChildren(h('pre', { dir: 'auto' }, record[member(column)]))
    } catch (error) { target.replaceWith(problem(error)) }
  }
  return h('button', { onclick: load }, 'Show all')
}

function slider(history, draw) {
  const last = history.length
  const output = h('output', { for: 'moment' })
  const move = () => {
    const index = last - Number(range.value)
    const change = history[index]
    draw(index)
    output.replaceChildren(...index === 0 ? ['As it is now']
      : change ? [`At revision ${number(change.revision)}, `, time(change.committed), ' by ', author(change)]
        : [`Before revision ${number(history[last - 1].revision)}`])
    range.setAttribute('aria-valuetext', output.textContent)
  }
  const range = h('input', { type: 'range', id: 'moment', min: 0, max: last, value: last,
    'aria-label': 'Show the record at a revision', oninput: move })
  move()
  return card(h('h2', {}, 'Time travel'), h('div', { class: 'bar' }, range, output))
}

function relatives(table, tables, present) {
  const item = (other, columns, data, by) => {
    const href = equalsLink(other, columns, data.map(name => present[member(name)] ?? undefined))
    return href ? [h('li', {}, a(href, words(other)), dim(` by ${by.join(', ')}`))] : []
  }
  const parents = table.references.flatMap(({ parent, parentColumns, columns }) =>
    item(parent, parentColumns, columns, columns))
  const children = tables.flatMap(child => child.references.filter(({ parent }) => parent === table.name)
    .flatMap(({ columns, parentColumns }) => item(child.name, columns, parentColumns, columns)))
  const list = (title, items) => items.length > 0 && card(h('h2', {}, title), h('ul', {}, items))
  return [list('Refers to', parents), list('Rows that refer to it', children)]
}

/** A change, before and after. */
export function changes({ operation, before, after }) {
  const names = columnsOf(before, after)
  return names.length > 0 && fields('Change', ['Column', 'Before', 'After'], names.map(column => [columnOf(column),
    operation !== 'create' && before && h('td', { class: 'before' }, value(before[column])),
    operation !== 'delete' && h('td', { class: 'after' }, value(after?.[column]))]), 'quiet')
}

const verbs = { create: ['good', 'created'], update: ['', 'changed'], delete: ['bad', 'deleted'] }
export const verb = operation => span(...verbs[operation] ?? ['', operation])

function historyPart(history, past, client, path) {
  const entry = change => h('li', {}, h('div', { class: 'head' },
    a(link(`revisions/${change.revision}`), number(change.revision)), dim(time(change.committed)),
    h('span', {}, author(change), ' ', verb(change.operation))), changes(change))
  const list = h('ul', { class: 'stack' }, history.map(entry))
  const older = next => h('button', { onclick: async ({ target }) => {
    target.disabled = true
    const page = await client.read(`${path}/history`, { before: next })
    list.append(...page.history.map(entry))
    target.replaceWith(page.next ? older(page.next) : '')
  } }, 'Older')
  return card(h('h2', {}, 'History'), history.length ? list : empty('No changes in the log.'),
    past?.next && older(past.next),
    past?.horizon > 0 && h('p', { class: 'dim small' }, `The log begins at revision ${number(past.horizon)}.`))
}

function copyButton(client, path) {
  const address = `${client.url}/zones/${encodeURIComponent(client.zone)}/${path}`
  const token = client.token ? '-H "Authorization: Bearer $TOKEN" ' : ''
  const command = `curl -s ${token}'${address.replaceAll("'", "'\\''")}'`
  // Without HTTPS only a page of this machine has a clipboard.
  const copy = async ({ target }) => {
    try {
      await navigator.clipboard.writeText(command)
      target.textContent = 'Copied'
    } catch { target.replaceWith(h('code', {}, command)) }
  }
  return h('button', { title: command, onclick: copy }, 'Copy as curl')
}

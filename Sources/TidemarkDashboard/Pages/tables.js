// The tables, and one table by pages.

import {
  a, card, count, dim, empty, finder, grid, h, head, isNumeric, member, number, pager, problem, recordLink, rowCount,
  scroll, value, words
} from './dom.js'
import { link, tableLink } from './route.js'

const columnsShown = 30
const reserved = ['or', 'and', 'not', 'order', 'select', 'limit', 'after', 'count', 'truncate']
const notFilters = ['order', 'select', 'limit', 'after']
const operators = { eq: 'is', neq: 'is not', gt: '>', gte: '≥', lt: '<', lte: '≤', like: 'is like', is: 'is NULL',
  'not.is': 'is not NULL' }

const filtersOf = query => [...query].filter(([name]) => !notFilters.includes(name))

/** The cursor of the page before that of a cursor. */
const previous = new Map()

/** A column that is named like a parameter stands in quotes. */
const parameter = column => reserved.includes(column) ? `"${column}"` : column

const quote = text => `"${text.replace(/["\\]/g, '\\$&')}"`
const operand = text => /[,()"]/.test(text) ? quote(text) : text

/** The name of a column in a list of names. */
export const listed = name => /[,()".]/.test(name) ? quote(name) : name

/** Where the rows are whose columns equal these values; nothing if a value has no short form. */
export function equalsLink(table, columns, data) {
  if (data.some(part => part === undefined || typeof part === 'object')) return undefined
  return tableLink(table, columns.map((column, index) => [parameter(column), `eq.${operand(`${data[index]}`)}`]))
}

/** Where the row is to which a column refers with a value. */
export function parentLinks({ references }) {
  const byColumn = new Map(references.filter(({ columns }) => columns.length === 1).map(one => [one.columns[0], one]))
  return (column, data) => {
    const found = byColumn.get(column)
    return found && equalsLink(found.parent, found.parentColumns, [data])
  }
}

export async function show(context) {
  const { tables, horizon } = await context.client.read('tables')
  if (!context.parts.length) return list(tables)
  const name = decodeURIComponent(context.parts[0])
  const table = tables.find(one => one.name === name)
  if (table) return oneTable(context, { ...table, horizon })
  return [head(words(name)), card(empty('This zone has no such table, or your token may not see it.'))]
}

function list(tables) {
  const titles = [['Table', { name: true }], ['Rows', { right: true }], ['Columns', { right: true }],
    ['Refers to', { name: true, hide: true }], ['', { right: true, hide: true }]]
  const rows = tables.map(table => [a(tableLink(table.name), words(table.name)), rowCount(table),
    number(table.columns.length), [...new Set(table.references.map(({ parent }) => parent))].join(', '),
    a(link('revisions', { table: table.name }), 'revisions')])
  if (!rows.length) return [head('Tables'), card(empty('No tables.'))]
  const place = grid('Tables', titles, rows)
  const lines = [...place.querySelectorAll('tbody tr')].map((line, index) => [line, tables[index].name])
  return [head('Tables'), finder('table', lines), card(place)]
}

async function oneTable({ client, query }, table) {
  const names = table.columns.map(column => column.name)
  const chosen = query.get('select')?.match(/"(\\.|[^"])*"|[^,]+/g) ?? []
  const known = names.filter(name => chosen.includes(listed(name)))
  const shown = known.length ? known : names.slice(0, columnsShown)
  const params = new URLSearchParams(query)
  if (!params.has('limit')) params.set('limit', 50)
  params.set('truncate', 200)
  params.set('select', shown.map(listed).join(','))
  let body
  let page
  try {
    page = (await client.pages(table.name, params).next()).value
    body = page.records.length ? rows(table, shown, page, query)
      : empty(filtersOf(query).length ? 'No rows fit these filters.' : 'No rows yet.')
  } catch (error) {
    if (error.status === 401) throw error
    body = problem(error)
  }
  return [head(words(table.name), dim(`${rowCount(table)} rows, ${count(names.length, 'column')}`),
    h('span', { class: 'push' }, a(link('revisions', { table: table.name }), 'Revisions'))),
  h('div', { class: 'card stack' }, filterForm(table, query), chips(table, query), chooser(table, names, query, shown),
    body, page && pages(table, query, page))]
}

/** The address of this table with a changed query, from its first page on. */
function changed(table, query, change) {
  const fresh = new URLSearchParams(query)
  fresh.delete('after')
  change(fresh)
  return tableLink(table.name, [...fresh])
}

function filterForm(table, query) {
  const column = h('select', { 'aria-label': 'Column' }, table.columns.map(({ name }) => h('option', {}, name)))
  const field = h('input', { 'aria-label': 'Value', dir: 'auto', placeholder: 'value', size: 18 })
  const choose = () => {
    field.hidden = operator.value.endsWith('is')
    field.placeholder = operator.value === 'like' ? '* is any text' : 'value'
  }
  const operator = h('select', { 'aria-label': 'Comparison', onchange: choose },
    Object.entries(operators).map(([name, title]) => h('option', { value: name }, title)))
  const submit = event => {
    event.preventDefault()
    const text = `${operator.value}.${field.hidden ? 'null' : operand(field.value)}`
    location.hash = changed(table, query, fresh => fresh.append(parameter(column.value), text))
  }
  return h('form', { onsubmit: submit }, column, operator, field, h('button', {}, 'Filter'))
}

function chips(table, query) {
  const filters = filtersOf(query).map(([name, text]) => {
    const href = changed(table, query, fresh => fresh.delete(name, text))
    return h('span', { class: 'chip' }, words(`${name} ${text.replace('.', ' ')}`),
      h('a', { href, 'aria-label': `Remove the filter of ${name}` }, '×'))
  })
  return filters.length > 0 && h('div', { class: 'bar' }, filters)
}

function chooser(table, names, query, shown) {
  const choices = h('div', { class: 'choices' }, names.map(name => h('label', {},
    h('input', { type: 'checkbox', value: name, checked: shown.includes(name) }), words(name))))
  const set = text => changed(table, query, fresh => text ? fresh.set('select', text) : fresh.delete('select'))
  const apply = () => {
    location.hash = set([...choices.querySelectorAll('input:checked')].map(box => listed(box.value)).join(','))
  }
  return h('details', {}, h('summary', {}, `Columns: ${shown.length} of ${number(names.length)}`),
    h('div', { class: 'bar' }, finder('column', [...choices.children].map((label, index) => [label, names[index]])),
      h('button', { onclick: apply }, 'Show these'), a(set(), 'As at first')), choices)
}

function rows(table, shown, page, query) {
  const order = query.get('order')
  const parent = parentLinks(table)
  const isRight = shown.map(name => page.records.some(record => isNumeric(record[member(name)])))
  const title = (name, index) => {
    const isDown = order === `${listed(name)}.desc`
    const isUp = order === listed(name)
    const href = changed(table, query, fresh => fresh.set('order', isUp ? `${listed(name)}.desc` : listed(name)))
    const sort = isUp ? 'ascending' : isDown && 'descending'
    return h('th', { scope: 'col', class: isRight[index] && 'right', 'aria-sort': sort },
      h('a', { href, title: `Sort by ${name}` }, words(name), isUp && ' ↑', isDown && ' ↓'))
  }
  const cell = (record, name, index) => {
    const data = record[member(name)]
    const content = value(data)
    const href = parent(name, data)
    const kind = isRight[index] ? 'right' : typeof data === 'string' && 'text'
    return h('td', { class: kind }, table.key.includes(name) ? recordLink(table.name, record.$key, content)
      : href ? a(href, content) : content)
  }
  // The key leads to the record even if its column is not shown.
  const hasKey = shown.some(name => table.key.includes(name))
  const key = ({ $key }) => h('td', {}, recordLink(table.name, $key))
  const revision = ({ $revision }) => h('td', { class: 'right' }, $revision > table.horizon
    ? a(link(`revisions/${$revision}`), number($revision)) : dim(number($revision)))
  const fixed = name => h('th', { scope: 'col' }, name)
  return scroll(`Rows of ${table.name}`, 'rows', [!hasKey && fixed('key'), shown.map(title), fixed('revision')],
    page.records.map(record => h('tr', {}, !hasKey && key(record),
      shown.map((name, index) => cell(record, name, index)), revision(record))))
}

function pages(table, query, page) {
  const after = query.get('after')
  if (page.next) previous.set(page.next, after)
  const to = cursor => changed(table, query, fresh => cursor && fresh.set('after', cursor))
  return pager(after && a(to(), 'First page'), previous.get(after) && a(to(previous.get(after)), '← Previous'),
    page.next && a(to(page.next), 'Next →'),
    dim(`${count(page.records.length, 'row')} at revision ${number(page.revision)}`))
}

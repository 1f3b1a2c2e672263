// The addresses of the pages: fragments, such as `#/zones/shop/tables/player/7?limit=3`.

/** The zone, the page and its parts, still encoded; `isBroken` if somebody has cut the address. */
export function place() {
  const [path, query] = location.hash.replace(/^#\/?/, '').split('?')
  const parts = path.split('/').filter(Boolean)
  let isBroken = false
  try { parts.forEach(decodeURIComponent) } catch { isBroken = true }
  const zone = !isBroken && parts[0] === 'zones' && parts[1] ? decodeURIComponent(parts.splice(0, 2)[1]) : 'main'
  return { zone, name: parts[0] ?? '', parts: parts.slice(1), query: new URLSearchParams(query), isBroken }
}

/** Where a page of this zone is; `path` is encoded already. */
export function link(path, query) {
  const { zone } = place()
  const text = `${new URLSearchParams(query)}`.replaceAll('+', '%20')
  return `#/${zone === 'main' ? '' : `zones/${encodeURIComponent(zone)}/`}${path}${text && `?${text}`}`
}

export const tableLink = (table, query) => link(`tables/${encodeURIComponent(table)}`, query)

export const recordAddress = (table, key) => link(`tables/${encodeURIComponent(table)}/${key}`)

/** An answer, or nothing if the sender may not see it or the server does not have it. */
export async function optional(answer) {
  try { return await answer } catch (error) {
    if ([403, 404, 405].includes(error.status)) return undefined
    throw error
  }
}

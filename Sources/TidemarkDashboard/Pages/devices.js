// The devices, worst first; one may be forgotten.

import { author, card, count, dim, empty, grid, h, head, problem, time } from './dom.js'
import { deviceColumns, deviceRow, isBehind, noDevices, worstFirst } from './overview.js'

export async function show({ client, main }) {
  const { devices } = await client.read('devices')
  const place = card()
  const titles = [...deviceColumns, ['First contact', { right: true, hide: true }], ['', { right: true }]]
  const row = device => [...deviceRow(device), time(device.firstContact),
    h('button', { class: 'danger', onclick: () => forget(device) }, 'Forget…')]
  const forget = async ({ device, name }) => {
    if (!confirm(`Forget ${name ?? device}? Its rows stay. If it syncs again, it appears again.`)) return
    try {
      await client.request('DELETE', `devices/${encodeURIComponent(device)}`)
      main.focus({ preventScroll: true })
      dispatchEvent(new Event('hashchange'))
    } catch (error) { place.prepend(problem(error)) }
  }
  place.append(devices.length ? grid('Devices', titles, worstFirst(devices).map(row)) : empty(noDevices))
  const behind = devices.filter(isBehind).length
  return [head('Devices', dim(count(devices.length, 'device'), behind > 0 && `, ${behind} far behind`)), place]
}

// The numbers of GET /metrics.

/** Reads the text format of Prometheus. */
export function parseMetrics(text) {
  const helps = {}
  const samples = []
  for (const line of text.split('\n')) {
    const help = line.match(/^# HELP (\S+) (.*)/)
    if (help) helps[help[1]] = help[2]
    const sample = line.match(/^([a-z_:]\w*)(?:\{(.*)\})? (\S+)/i)
    if (!sample) continue
    const pairs = [...(sample[2] ?? '').matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(match => match.slice(1))
    const labels = Object.fromEntries(pairs)
    samples.push({ name: sample[1], labels, value: Number(sample[3].replace('Inf', 'Infinity')) })
  }
  const total = name => samples.filter(sample => sample.name === name).reduce((sum, sample) => sum + sample.value, 0)
  return { helps, samples, total }
}

/** The server's metrics; nothing without an administrator's token. */
export async function metrics(client) {
  try { return parseMetrics(await (await client.request('GET', '/metrics')).text()) } catch (error) {
    if ([401, 403, 404].includes(error.status)) return undefined
    throw error
  }
}

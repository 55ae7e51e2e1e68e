import t from 'tap'
import { startEdge } from '../../support/edge.ts'
import { startNginx } from '../../support/nginx-server.ts'
import { RawClient } from '../../support/raw-client.ts'
import { withoutServers } from '../../support/servers.ts'

const REQUESTS = 20

/** A head with a byte over ASCII, so that what the parser cuts off is looked for, and a value of that many bytes. */
const headWith = (filler: string, bytes: number) =>
  `GET /v1/me HTTP/1.1\r\nHost: a\r\nAuthorization: a${filler.repeat(bytes)}a\r\nX-E: \xe9\r\n\r\n`

/** CPU of the process, client included, for some requests. @returns ms each, the least of three rounds */
async function cpuFor(port: number, head: string): Promise<number> {
  let least = Number.POSITIVE_INFINITY
  for (let round = 0; round < 3; round += 1) {
    const client = await RawClient.connect(port)
    const before = process.cpuUsage()
    for (let sent = 0; sent < REQUESTS; sent += 1) {
      await client.send(head)
      if ((await client.response())?.status !== 401) throw new Error('not refused')
    }
    const { user, system } = process.cpuUsage(before)
    least = Math.min(least, (user + system) / 1_000 / REQUESTS)
    client.destroy()
  }
  return least
}

async function start() {
  return startEdge(t, [
    { method: 'GET', path: '/v1/me', handle: (exchange) => exchange.reply({ status: 401, body: '{}' }) },
  ])
}

t.test('blanks inside of a value cost no more than letters', async (t) => {
  const { port } = await start()
  for (const [name, filler] of Object.entries({ tabs: '\t', blanks: ' ' })) {
    const letters = await cpuFor(port, headWith('b', 15_500))
    const blanks = await cpuFor(port, headWith(filler, 15_500))
    t.ok(
      blanks < 4 * letters + 1,
      `15,500 ${name}: ${blanks.toFixed(2)} ms, letters ${letters.toFixed(2)} ms`,
    )
  }
})

t.test('nor do they behind nginx as it is deployed', { skip: withoutServers }, async (t) => {
  const { port } = await start()
  const nginx = await startNginx(t, [port, port, port])
  const twice = (filler: string) => {
    const value = filler.repeat(6_900)
    const lines = [`Authorization: a${value}a`, `X-LK-Purpose: a${value}a`, 'X-E: \xe9', '', '']
    return ['GET /v1/me HTTP/1.1', 'Host: a', ...lines].join('\r\n')
  }
  const letters = await cpuFor(nginx.port, twice('b'))
  const blanks = await cpuFor(nginx.port, twice('\t'))
  t.ok(blanks < 4 * letters + 1, `two of 6,900: ${blanks.toFixed(2)} ms, letters ${letters.toFixed(2)} ms`)
})

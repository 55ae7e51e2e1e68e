import { request } from 'node:http'
import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import t from 'tap'
import { type ConsoleNode, startConsoleNode } from '../support/console-node.ts'

/** As a browser asks; `fetch` would open what is compressed before it can be looked at. */
function raw(node: ConsoleNode, path: string, headers: Readonly<Record<string, string>>) {
  return new Promise<{ headers: Readonly<Record<string, unknown>>; body: Buffer }>((resolve, reject) => {
    request(`${node.url}/console/api${path}`, { headers }, (response) => {
      const pieces: Buffer[] = []
      response.on('data', (piece: Buffer) => pieces.push(piece))
      response.on('end', () => resolve({ headers: response.headers, body: Buffer.concat(pieces) }))
    })
      .on('error', reject)
      .end()
  })
}

t.test('a long answer is compressed for a client that takes it', async (t) => {
  const node = await startConsoleNode(t)
  const operator = await node.signIn(node.keys.operator)
  const { cookie } = operator
  const domains = Array.from({ length: 20 }, (_, i) => `${'a'.repeat(63)}.${'b'.repeat(63)}.host${i}.example`)
  for (let i = 0; i < 20; i++)
    t.equal((await operator.put('/workspaces/acme/audio-url-domains', { domains })).status, 200)
  const long = '/audit'
  // As browsers ask over HTTPS and of their own machine, and as they do over the network without.
  const shrunk = await raw(node, long, { cookie, 'accept-encoding': 'gzip, deflate, br' })
  const zipped = await raw(node, long, { cookie, 'accept-encoding': 'gzip, deflate' })
  const same = { vary: 'accept-encoding', 'content-type': 'application/json', 'cache-control': 'no-store' }
  t.match(shrunk.headers, { 'content-encoding': 'br', ...same })
  t.match(zipped.headers, { 'content-encoding': 'gzip', ...same })
  const plain = await raw(node, long, { cookie })
  t.equal(plain.headers['content-encoding'], undefined)
  t.equal(plain.headers.vary, 'accept-encoding')
  t.ok(plain.body.length > 8 * 1024, `${plain.body.length} bytes`)
  t.ok(zipped.body.length < plain.body.length / 3, `${zipped.body.length} bytes`)
  t.ok(shrunk.body.length < zipped.body.length, `${shrunk.body.length} bytes`)
  t.same(JSON.parse(gunzipSync(zipped.body).toString()), JSON.parse(plain.body.toString()))
  t.equal(brotliDecompressSync(shrunk.body).toString(), plain.body.toString())

  const refused = await raw(node, long, { cookie, 'accept-encoding': 'gzip;q=0' })
  t.equal(refused.headers['content-encoding'], undefined)
  const short = await raw(node, '/session', { cookie, 'accept-encoding': 'gzip' })
  t.equal(short.headers['content-encoding'], undefined)
  t.match(JSON.parse(short.body.toString()), { role: 'operator' })
})

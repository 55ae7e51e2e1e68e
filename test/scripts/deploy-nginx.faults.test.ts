import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { WebSocket } from 'ws'
import { createS3Links, createS3Objects } from '../../src/gateway/storage/s3.ts'
import { askTls } from '../support/ask-tls.ts'
import { localCertificate } from '../support/edge.ts'
import { startGateway } from '../support/gateway.ts'
import { LiveClient, openLive, wordsEntry } from '../support/live-rig.ts'
import { RATE, serveWords, wordsAudio, wordsText } from '../support/live-words.ts'
import { startNginx } from '../support/nginx-server.ts'
import { withoutServers } from '../support/servers.ts'
import { sharedS3 } from '../support/shared-s3.ts'
import { waitUntil } from '../support/wait-until.ts'
import { filledWav } from '../support/wav.ts'

const CALLERS = 8
const BODY = 'x'.repeat(2_000)
const LOOKS_PER_SECOND = 5

/** Something that answers where nginx expects a node, and may say that it leaves. */
class Node {
  leaves = false
  posts = 0
  looks = 0
  port = 0

  async listen(t: Test): Promise<this> {
    const server = createServer((request, response) => this.#answer(request, response))
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    t.teardown(() => server.closeAllConnections())
    t.teardown(() => server.close())
    this.port = (server.address() as AddressInfo).port
    return this
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    const isLook = request.url === '/readyz'
    if (isLook) this.looks += 1
    else if (request.method === 'POST') this.posts += 1
    // A look that has a body, or a key, is not one.
    const isOdd = isLook && (request.headers['content-length'] ?? request.headers.authorization) !== undefined
    request.resume().on('end', () => {
      response.writeHead(isLook && this.leaves ? 503 : isOdd ? 400 : 200).end('{}')
    })
  }
}

t.test('nginx leaves a node that says it leaves, by POSTs alone', { skip: withoutServers }, async (t) => {
  const nodes = [await new Node().listen(t), await new Node().listen(t), await new Node().listen(t)] as const
  const [first, second, third] = nodes
  const nginx = await startNginx(t, [first.port, second.port, third.port])
  const statuses = new Set<number>()
  let over = false
  const call = async () => {
    while (!over) {
      const headers = { authorization: 'Bearer a', connection: 'keep-alive' }
      const response = await fetch(`${nginx.url}/v1/speech`, { method: 'POST', headers, body: BODY })
      await response.arrayBuffer()
      statuses.add(response.status)
    }
  }
  const startMs = performance.now()
  const calls = Array.from({ length: CALLERS }, call)
  t.ok(await waitUntil(() => nodes.every(({ posts }) => posts > 20)), 'all of them serve')

  second.leaves = true
  const { looks } = second
  t.ok(await waitUntil(() => second.looks > looks), 'it is asked')
  await sleep(500)
  const { posts } = second
  await sleep(3_000)
  t.equal(second.posts, posts, 'and gets nothing then')
  const seconds = (performance.now() - startMs) / 1_000
  const asked = nodes.reduce((sum, node) => sum + node.looks, 0)
  t.ok(asked <= seconds * LOOKS_PER_SECOND + 5, `${asked} looks in ${Math.round(seconds)} s`)

  first.leaves = third.leaves = true
  await sleep(3_000)
  t.same(statuses, new Set([200]), 'when all leave, they are asked all the same')
  second.leaves = false
  t.ok(await waitUntil(() => second.posts > posts), 'one that is back is found')
  over = true
  await Promise.all(calls)
  t.same(statuses, new Set([200]), 'nobody has noticed')
})

t.test('TLS may end at nginx, by the lines that its file has for it', { skip: withoutServers }, async (t) => {
  const { files, ca } = await localCertificate(t)
  const node = await startGateway(t)
  const { tlsPort = 0, url } = await startNginx(t, [node.port, node.port, node.port], files)
  const audio = filledWav(25 * 1024 * 1024 - 1024, 1)
  const post = (path: string, headers: Record<string, string>, body: Uint8Array) =>
    askTls(tlsPort, ca, path, { method: 'POST', headers }, body)
  const headers = {
    authorization: `Bearer ${node.key}`,
    'content-type': 'audio/wav',
    'x-lk-request-id': 'one',
  }
  const { status, ...answer } = await post('/v1/transcription', headers, audio)
  t.equal(status, 200, String(answer.body))
  t.equal(answer.headers['x-lk-request-id'], 'one')
  t.equal(JSON.parse(String(answer.body)).usage.audio_seconds, 819.167)
  const key = Buffer.from(JSON.stringify({ key: node.key }))
  const signedIn = await post('/console/api/session', { 'content-type': 'application/json' }, key)
  t.match(signedIn.headers['set-cookie'], [/; Secure$/], 'the node is told by a header')
  t.equal((await fetch(`${url}/readyz`)).status, 200, 'beside HTTP')
})

t.test('a live session goes through nginx, with TLS and without', { skip: withoutServers }, async (t) => {
  const { files, ca } = await localCertificate(t)
  const provider = await serveWords(t)
  const rig = await openLive(t, [wordsEntry(provider.origin, 'first')])
  const port = Number(new URL(rig.origin).port)
  const nginx = await startNginx(t, [port, port, port], files)
  for (const origin of [`ws://127.0.0.1:${nginx.port}`, `wss://localhost:${nginx.tlsPort}`]) {
    const headers = { authorization: rig.authorization }
    const url = `${origin}/v1/transcription/stream?sample_rate=${RATE}`
    const caller = new LiveClient(t, new WebSocket(url, ['larkway.v1'], { headers, ca }))
    await caller.message('ready')
    await caller.speak(wordsAudio(0, 5))
    caller.send({ type: 'end' })
    t.match(await caller.message('done'), { type: 'done' })
    t.equal(await caller.closed, 1000)
    t.equal(caller.text, wordsText(5))
  }
  const other = {
    headers: { connection: 'Upgrade, HTTP2-Settings', upgrade: 'h2c', 'http2-settings': 'AAMAAABk' },
  }
  t.equal(
    (await askTls(nginx.tlsPort ?? 0, ca, '/readyz', other)).status,
    404,
    'no other protocol is changed to',
  )
})

t.test(
  'signed URLs lead through nginx to the store, and nothing else does',
  { skip: withoutServers },
  async (t) => {
    const [node, server] = await Promise.all([new Node().listen(t), sharedS3(t)])
    const bucket = await server.makeBucket()
    const { port: storePort } = new URL(server.endpoint)
    const nginx = await startNginx(t, [node.port, node.port, node.port], undefined, {
      port: Number(storePort),
      bucket,
    })
    const access = { ...server, bucket }
    const objects = createS3Objects(access)
    t.teardown(() => objects.close())
    const bytes = Buffer.alloc(300_000, 'audio')
    const { signal } = new AbortController()
    await objects.put('result/acme/a/0', Readable.from([bytes]), bytes.length, { signal })
    const object = { key: 'result/acme/a/0', bytes: bytes.length, mediaType: 'application/json' }
    const url = await createS3Links({ ...access, endpoint: nginx.url }).sign(object, Date.now() / 1_000 + 60)
    t.ok(url.startsWith(`${nginx.url}/${bucket}/`))
    const opened = await fetch(url)
    t.equal(opened.status, 200)
    t.ok(Buffer.from(await opened.arrayBuffer()).equals(bytes))
    const part = await fetch(url, { headers: { range: 'bytes=5-9' } })
    t.same([part.status, await part.text()], [206, 'audio'])
    t.equal((await fetch(url.replace('/a/0', '/b/0'))).status, 403, 'signed for another object')
    t.equal((await fetch(url.split('?')[0]!)).status, 403, 'not signed')
    for (const method of ['PUT', 'POST', 'DELETE'])
      t.equal((await fetch(url, { method, body: method === 'DELETE' ? null : 'a' })).status, 405, method)
    t.notMatch(await nginx.log(), /X-Amz-Signature|Signature=/, 'a signature is in no log')
  },
)

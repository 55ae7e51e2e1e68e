import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { readdirSync, readlinkSync } from 'node:fs'
import { rm, writeFile } from 'node:fs/promises'
import { type IncomingMessage, request } from 'node:http'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import type { LinkedObject } from '../../src/contracts/links.ts'
import { createFolderLinks } from '../../src/gateway/storage/folder-links.ts'
import { noise } from '../support/bodies.ts'
import { assertStopsClean } from '../support/gateway.ts'
import { type Larkway, startLarkway } from '../support/larkway.ts'
import { MemoryWatch, residentMiB } from '../support/process-load.ts'
import { RawClient } from '../support/raw-client.ts'
import { waitUntil } from '../support/wait-until.ts'

const KEYS = [Buffer.alloc(32, 1), Buffer.alloc(32, 2)] as const
const DAY = 24 * 3600

async function start(t: Test): Promise<Larkway> {
  const encoded = KEYS.map((key) => key.toString('base64')).join()
  return startLarkway(t, { env: { LARKWAY_SECRET_KEYS: encoded, LARKWAY_MEMORY_MIB: '16' } })
}

/** Stores a result as the gateway does, and signs it. */
async function keep(gateway: Larkway, name: string, bytes: Buffer, mediaType = 'video/mp4'): Promise<string> {
  const key = `result/acme/vid_${name}/0`
  await writeFile(join(gateway.dataFolder, 'result', `acme+vid_${name}+0`), bytes)
  return sign({ key, bytes: bytes.length, mediaType })
}

const sign = (object: LinkedObject, seconds = DAY, keys: readonly Buffer[] = KEYS) =>
  createFolderLinks({ keys, publicUrl: undefined }).sign(object, Math.floor(Date.now() / 1000) + seconds)

t.test('a result is opened by its URL alone, whole or in part', async (t) => {
  const gateway = await start(t)
  const film = noise(300_000)
  const url = gateway.url + (await keep(gateway, 'a', film))
  const last = film.length - 1
  const rows: [string | undefined, number, number][] = [
    [undefined, 0, last],
    ['bytes=0-', 0, last],
    ['bytes=0-0', 0, 0],
    ['bytes=1-140000', 1, 140_000],
    [`bytes=${last}-`, last, last],
    [`bytes=${last}-999999999999999`, last, last],
    ['bytes=-5', last - 4, last],
    ['bytes=-999999999', 0, last],
  ]
  for (const [range, from, to] of rows) {
    const response = await fetch(url, range === undefined ? {} : { headers: { range } })
    t.equal(response.status, range === undefined ? 200 : 206, String(range))
    t.match(Object.fromEntries(response.headers), {
      'content-type': 'video/mp4',
      'accept-ranges': 'bytes',
      'cache-control': 'private, max-age=3600',
      'content-security-policy': /sandbox/,
      'x-content-type-options': 'nosniff',
      ...(range === undefined ? {} : { 'content-range': `bytes ${from}-${to}/${film.length}` }),
    })
    const body = Buffer.from(await response.arrayBuffer())
    t.ok(body.equals(film.subarray(from, to + 1)), `${range}: ${body.length} bytes`)
  }
  // A range that cannot be satisfied, or more than one, may be ignored (RFC 9110, section 14.2).
  for (const range of [
    ...['bytes=300000-', 'bytes=9-2', 'bytes=-0', 'bytes=-', 'bytes=0-1,4-5', 'items=0-1', 'bytes=a-b'],
  ]) {
    const response = await fetch(url, { headers: { range } })
    t.same([response.status, response.headers.get('content-range')], [200, null], range)
    t.equal((await response.arrayBuffer()).byteLength, film.length, range)
  }
  await assertStopsClean(t, gateway)
})

t.test('HEAD, and other methods', async (t) => {
  const gateway = await start(t)
  const url = gateway.url + (await keep(gateway, 'a', noise(300_000)))
  const head = await fetch(url, { method: 'HEAD' })
  t.same([head.status, head.headers.get('content-type')], [200, 'video/mp4'])
  t.equal(head.headers.get('accept-ranges'), 'bytes')
  const part = await fetch(url, { method: 'HEAD', headers: { range: 'bytes=0-1' } })
  t.same([part.status, part.headers.get('content-range')], [206, 'bytes 0-1/300000'])
  for (const method of ['POST', 'PUT', 'DELETE', 'PATCH']) {
    const response = await fetch(url, { method, body: 'x' })
    t.same([response.status, response.headers.get('allow')], [405, 'GET, HEAD'], method)
    await response.text()
  }
  await assertStopsClean(t, gateway)
})

t.test('what is forged, over, elsewhere or gone is one and the same 404', async (t) => {
  const gateway = await start(t)
  const path = await keep(gateway, 'a', Buffer.from('film'))
  const [claims = '', proof = ''] = path.slice('/results/'.length).split('.')
  const object = { key: 'result/acme/vid_a/0', bytes: 4, mediaType: 'video/mp4' }
  const other = proof.startsWith('A') ? 'B' : 'A'
  const reclaimed = Buffer.from(JSON.stringify(['spool/acme/x/0', 4, 'text/html', 4e9])).toString('base64url')
  // Only four bits of the last of 43 characters count: its successor decodes to the same bytes.
  const twin = proof.slice(0, -1) + String.fromCharCode(proof.charCodeAt(proof.length - 1) + 1)
  const bad: Record<string, string> = {
    'another signature': `/results/${claims}.${other}${proof.slice(1)}`,
    'other claims': `/results/${reclaimed}.${proof}`,
    'no signature': `/results/${claims}`,
    'an empty one': `/results/${claims}.`,
    'a tail': `${path}.x`,
    'a blank': `${path}%20`,
    'padding after it': `${path}=`,
    'a twin of the last character': `/results/${claims}.${twin}`,
    nothing: '/results/',
    'a dot': '/results/.',
    'no escape': '/results/%zz',
    'a path': '/results/..%2f..%2fsecret-key',
    'very long': `/results/${'a'.repeat(3_000)}`,
    over: await sign(object, -1),
    'another’s key': await sign(object, DAY, [Buffer.alloc(32, 9)]),
    gone: await sign({ ...object, key: 'result/acme/vid_b/0' }),
  }
  const bodies = new Set<string>()
  for (const [name, url] of Object.entries(bad)) {
    const response = await fetch(gateway.url + url)
    t.equal(response.status, 404, name)
    const { error } = (await response.json()) as { error: Record<string, unknown> }
    bodies.add(JSON.stringify({ ...error, request_id: null }))
  }
  t.equal(bodies.size, 1, 'nothing can be told from it')
  t.equal(await (await fetch(gateway.url + path)).text(), 'film')
  t.equal(
    await (await fetch(gateway.url + (await sign(object, DAY, [KEYS[1]])))).text(),
    'film',
    'a former key',
  )
  await rm(join(gateway.dataFolder, 'result', 'acme+vid_a+0'))
  t.equal((await fetch(gateway.url + path)).status, 404)
  await assertStopsClean(t, gateway)
})

t.test('who leaves, or never reads, leaves no file open', { timeout: 60_000 }, async (t) => {
  const gateway = await start(t)
  const path = await keep(gateway, 'a', noise(30_000_000))
  for (let round = 0; round < 40; round += 1) {
    await (await fetch(gateway.url + path, { method: 'HEAD' })).text()
    const client = await RawClient.connect(gateway.port)
    await client.send(`GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`)
    if (round % 2 === 0) await client.receives(5_000)
    client.destroy()
  }
  // One that came last is answered: the others, too, have been read and have opened the file.
  t.equal((await (await fetch(gateway.url + path)).arrayBuffer()).byteLength, 30_000_000)
  // Soon: what the collector of garbage closes some day was left open.
  t.ok(await waitUntil(() => openFiles(gateway, 'acme+vid_a+0') === 0, 1_000), 'none is open')
  await assertStopsClean(t, gateway)
})

/** How many descriptors of the gateway are files of that name. */
function openFiles({ pid }: Larkway, name: string): number {
  const folder = `/proc/${pid}/fd`
  const targets = readdirSync(folder).map((descriptor) => {
    try {
      return readlinkSync(join(folder, descriptor))
    } catch {
      return 'closed meanwhile'
    }
  })
  return targets.filter((target) => target.endsWith(name)).length
}

t.test('a slow reader holds the store back, not the memory', { timeout: 60_000 }, async (t) => {
  const gateway = await start(t)
  const film = noise(80_000_000)
  const path = await keep(gateway, 'a', film)
  const beforeMiB = residentMiB(gateway.pid)
  const memory = new MemoryWatch(gateway.pid)
  const answers = await Promise.all(Array.from({ length: 5 }, () => openAnswer(gateway.url + path)))
  await sleep(2_000)
  const digests = await Promise.all(answers.map(digestOf))
  t.same(new Set(digests), new Set([createHash('sha256').update(film).digest('hex')]))
  const grownMiB = memory.stop() - beforeMiB
  t.ok(grownMiB < 80, `the gateway grew by ${Math.round(grownMiB)} MiB`)
  await assertStopsClean(t, gateway)
})

/** An answer of which nothing is read yet. */
async function openAnswer(url: string): Promise<IncomingMessage> {
  const sent = request(url, { agent: false })
  sent.end()
  const [response] = (await once(sent, 'response')) as [IncomingMessage]
  return response
}

async function digestOf(answer: IncomingMessage): Promise<string> {
  const digest = createHash('sha256')
  for await (const chunk of answer) digest.update(chunk as Buffer)
  return digest.digest('hex')
}

import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { hashKey, makeKey } from '../../src/gateway/catalog/key.ts'
import { sha256 } from '../support/digests.ts'
import { assertStopsClean } from '../support/gateway.ts'
import { startLarkway } from '../support/larkway.ts'
import { RawClient } from '../support/raw-client.ts'
import { answer, type HeardRequest, startEar } from '../support/slow-ear.ts'
import { waitUntil } from '../support/wait-until.ts'
import { filledWav } from '../support/wav.ts'

const BUDGET_MIB = 16
const BODY = filledWav(6_000_000, 9)
const UPLOADS = 16
const BYTES_PER_SECOND = 3_000_000
/** What sending on may take beside the budget: a chunk for each upload, and what is not collected yet. */
const MORE_MIB = 24
/** Most pairs of nodes, one that sends on and one that does not, whose least peaks are compared. */
const PAIRS = 3

/** Reads a request no faster than `BYTES_PER_SECOND`. */
function slowly(): (request: HeardRequest) => void {
  const begun = new Map<HeardRequest, number>()
  return (request) => {
    const { socket, received } = request
    const sinceMs = begun.get(request) ?? performance.now()
    begun.set(request, sinceMs)
    const aheadMs = (received / BYTES_PER_SECOND) * 1000 - (performance.now() - sinceMs)
    if (aheadMs < 5) return
    socket.pause()
    setTimeout(() => socket.resume(), aheadMs)
  }
}

function headOf(key: string): string {
  const head = `POST /v1/transcription HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n`
  return `${head}Content-Type: audio/wav\r\nContent-Length: ${BODY.length}\r\n\r\n`
}

/** Sends the body at a pace, or as fast as it is taken. */
async function upload(port: number, key: string, paced: boolean) {
  const client = await RawClient.connect(port)
  await client.send(headOf(key))
  const beganMs = performance.now()
  for (let at = 0; at < BODY.length; at += 100_000) {
    await client.send(BODY.subarray(at, at + 100_000))
    const aheadMs = (at / BYTES_PER_SECOND) * 1000 - (performance.now() - beganMs)
    if (paced && aheadMs > 0) await sleep(aheadMs)
  }
  const response = await client.response({ timeoutMs: 60_000 })
  client.destroy()
  return { status: response?.status, text: (JSON.parse(`${response?.body}`) as { content: string }).content }
}

async function startNode(t: Test, earUrls: readonly string[], entry: object) {
  const key = makeKey()
  const provider = { kind: 'deepgram', access: 'byok', workspace: 'acme', api_key: `\${EAR_KEY}` }
  const gateway = await startLarkway(t, {
    key,
    env: { EAR_KEY: 'ear', LARKWAY_MEMORY_MIB: `${BUDGET_MIB}` },
    config: {
      providers: Object.fromEntries(earUrls.map((base_url, i) => [`ear${i}`, { ...provider, base_url }])),
      routes: {
        voice: {
          workspace: 'acme',
          entries: earUrls.map((_, i) => ({ provider: `ear${i}`, model: 'nova-3', ...entry })),
        },
      },
      workspaces: {
        acme: {
          apps: { web: { route: 'voice' } },
          keys: [{ id: 'key_web', app: 'web', sha256: hashKey(key) }],
        },
      },
    },
  })
  return { gateway, key }
}

async function peakOf(t: Test, cut_through: boolean): Promise<number> {
  const ear = await startEar(t, { onPart: slowly() })
  const { gateway, key } = await startNode(t, [ear.url], { cut_through })
  const sends = Array.from({ length: UPLOADS }, (_, i) => upload(gateway.port, key, i % 2 === 0))
  const answers = await Promise.all(sends)
  const expected = { status: 200, text: `Heard ${sha256(BODY)}` }
  t.same(
    answers.filter(({ status, text }) => status !== expected.status || text !== expected.text),
    [],
    'every provider heard the very audio',
  )
  t.equal(ear.requests.length, UPLOADS, 'once each')
  t.ok(await waitUntil(() => ear.requests.every(({ sha256 }) => sha256 !== null)))
  const peak = await gateway.peakRssMiB()
  await assertStopsClean(t, gateway)
  return peak
}

t.test('a provider that does not wait for a slow upload is asked again, and not blamed', async (t: Test) => {
  /** More than the gateway takes for a provider's own haste. */
  const waitMs = 5_300
  // As many as open a breaker.
  const uploads = 5
  const givenUp = new Set<HeardRequest>()
  const seen = new Set<HeardRequest>()
  const hasty = await startEar(t, {
    onPart(request) {
      if (seen.has(request) || seen.size >= uploads) return
      seen.add(request)
      setTimeout(() => {
        givenUp.add(request)
        if (givenUp.size % 2 === 0) request.socket.resetAndDestroy()
        else answer(request, 408, { err_msg: 'too slow' })
      }, waitMs)
    },
  })
  const other = await startEar(t)
  const { gateway, key } = await startNode(t, [hasty.url, other.url], { cut_through: true })
  const head = headOf(key)
  const clients = await Promise.all(
    Array.from({ length: uploads }, async () => {
      const client = await RawClient.connect(gateway.port)
      await client.send(head, BODY.subarray(0, 200_000))
      return client
    }),
  )
  t.ok(await waitUntil(() => givenUp.size === uploads))
  for (const client of clients) {
    await client.send(BODY.subarray(200_000))
    t.equal((await client.response({ timeoutMs: 20_000 }))?.status, 200)
    client.destroy()
  }
  t.equal(other.requests.length, 0, 'nobody else was asked')
  t.equal(hasty.requests.filter((one) => one.sha256 === sha256(BODY)).length, uploads)
  const requests = () => gateway.log.filter(({ msg }) => msg === 'request')
  await waitUntil(() => requests().length === uploads)
  const lines = requests()
  t.match(
    lines,
    Array.from({ length: uploads }, () => ({ cut_through: 'dropped', attempts: [{ status: 200 }] })),
  )
  const upstream = lines.map(({ upstream_milliseconds: ms }) => Number(ms))
  t.ok(Math.max(...upstream) < waitMs / 2, `the upload is not counted as the provider's time: ${upstream}`)
  await assertStopsClean(t, gateway)
})

t.test('a transcript of what was sent on while it came is judged with the whole audio', async (t: Test) => {
  const [first, second] = [await startEar(t), await startEar(t)]
  // The audio is one steady level, which nobody speaks.
  const accept = { silence: true, last_resort: true }
  const { gateway, key } = await startNode(t, [first.url, second.url], { cut_through: true, accept })
  const answered = await upload(gateway.port, key, true)
  t.same(answered, { status: 200, text: `Heard ${sha256(BODY)}` })
  t.same(
    [first, second].map(({ requests }) => requests.map((one) => one.sha256)),
    [[sha256(BODY)], [sha256(BODY)]],
  )
  const line = () => gateway.log.find(({ msg }) => msg === 'request')
  await waitUntil(() => line() !== undefined)
  t.match(line(), {
    cut_through: 'used',
    attempts: [
      { provider: 'ear0', reason: 'a transcript that breaks accept: silence' },
      { provider: 'ear1' },
    ],
  })
  await assertStopsClean(t, gateway)
})

t.test('what is sent on while it comes takes no memory of its own', { timeout: 180_000 }, async (t: Test) => {
  // A peak holds what was not collected yet, too, now and then much.
  let [whole, cut] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY]
  for (let pair = 0; pair < PAIRS && !(cut - whole < MORE_MIB); pair += 1) {
    whole = Math.min(whole, await peakOf(t, false))
    cut = Math.min(cut, await peakOf(t, true))
  }
  t.ok(
    cut - whole < MORE_MIB,
    `peak of memory: ${Math.round(cut)} MiB, of whole bodies ${Math.round(whole)} MiB`,
  )
  t.comment(`${Math.round(cut)} and ${Math.round(whole)} MiB`)
})

import { randomBytes } from 'node:crypto'
import type { ServerResponse } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { type Fleet, startFleet } from '../support/fleet.ts'
import { serveHttp } from '../support/http-server.ts'
import type { Larkway } from '../support/larkway.ts'
import { type S3Server, startS3 } from '../support/s3-server.ts'
import { withoutServers } from '../support/servers.ts'
import { waitUntil } from '../support/wait-until.ts'

const AUDIO_BYTES = 30_000
/** Of every object, in front of its audio. */
const HEAD_BYTES = 512
/** As `RedisPermits` leases them, and some time for a busy machine. */
const LEASE_MS = 15_000 + 10_000

/** A provider of speech that makes other audio each time, and holds its end back until it is told. */
async function openMouth(t: Test) {
  const held: ServerResponse[] = []
  const asked: string[] = []
  const origin = await serveHttp(t, (request, response) => {
    let text = ''
    request.setEncoding('utf8').on('data', (piece: string) => {
      text += piece
    })
    request.on('end', () => {
      const { input } = JSON.parse(text) as { input: string }
      asked.push(input)
      const audio = randomBytes(AUDIO_BYTES)
      response.writeHead(200, { 'content-type': 'audio/mpeg' })
      if (!input.startsWith('held')) return void response.end(audio)
      response.write(audio.subarray(0, 1_000))
      response.on('close', () => held.splice(held.indexOf(response), 1))
      held.push(Object.assign(response, { finish: () => response.end(audio.subarray(1_000)) }))
    })
  })
  return {
    origin,
    asked: (input: string) => asked.filter((one) => one === input).length,
    held: () => held.length,
    finish() {
      for (const one of held.splice(0)) (one as ServerResponse & { finish(): void }).finish()
    },
  }
}

async function startNodes(t: Test, origin: string, s3: S3Server): Promise<Fleet> {
  const account = { kind: 'openai-compatible', access: 'platform', base_url: `${origin}/v1` }
  return await startFleet(t, {
    nodes: 2,
    redis: {},
    s3,
    providers: { mouth: { ...account, capabilities: ['audio_output'], price: { per_1k_characters_usd: 1 } } },
    workspaces: {
      acme: {
        entries: [{ provider: 'mouth', model: 'tts-1' }],
        route: { cache: { ttl_seconds: 3600, max_bytes: 400_000 } },
        terms: { credits_usd: 1_000, grant_id: 'first' },
      },
    },
  })
}

function speakerOf(fleet: Fleet) {
  return async (node: Larkway, input: string) => {
    const response = await fetch(`${node.url}/openai/v1/audio/speech`, {
      method: 'POST',
      headers: { authorization: fleet.authorizationOf('acme'), 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'any', voice: 'alloy', input }),
    })
    const audio = Buffer.from(await response.arrayBuffer())
    return { status: response.status, cache: response.headers.get('x-lk-cache'), audio }
  }
}

t.test('kept speech over nodes', { skip: withoutServers, timeout: 240_000 }, async (t) => {
  const mouth = await openMouth(t)
  const s3 = await startS3(t)
  const fleet = await startNodes(t, mouth.origin, s3)
  const speak = speakerOf(fleet)
  const [first, second] = [fleet.node(0), fleet.node(1)]

  await t.test('what one node made, the other one has', async (t) => {
    const made = await speak(first, 'hello')
    t.match([made.status, made.cache], [200, 'miss'])
    await waitUntil(async () => (await speak(second, 'hello')).cache === 'hit')
    t.ok((await speak(second, 'hello')).audio.equals(made.audio))
    t.equal(mouth.asked('hello'), 1)
  })

  await t.test('callers at both nodes at once cost one call', async (t) => {
    const calls = Array.from({ length: 200 }, (_, at) =>
      speak(at % 2 === 0 ? first : second, 'held together'),
    )
    await waitUntil(() => mouth.held() === 1)
    await sleep(1_500)
    mouth.finish()
    const answers = await Promise.all(calls)
    t.equal(mouth.asked('held together'), 1)
    const [{ audio }] = answers as [Awaited<ReturnType<typeof speak>>]
    t.equal(audio.length, AUDIO_BYTES)
    t.ok(answers.every((one) => one.status === 200 && one.audio.equals(audio)))
    t.equal(answers.filter(({ cache }) => cache === 'miss').length, 1)
  })

  await t.test('the sum holds over both', async (t) => {
    for (let n = 0; n < 24; n += 1) await speak(n % 2 === 0 ? first : second, `one of many ${n}`)
    const kept = async () =>
      ((await fleet.bucket?.contents()) ?? []).filter((key) => key.startsWith('cache/acme/')).length
    const sum = async () => (await kept()) * (AUDIO_BYTES + HEAD_BYTES)
    t.ok(await waitUntil(async () => (await sum()) <= 400_000 * 1.25, 10_000), `${await sum()} bytes`)
    t.ok((await sum()) > 200_000)
  })

  await t.test('when the node that makes it is killed, the others go on after its lease', async (t) => {
    const dying = Array.from({ length: 3 }, () => speak(first, 'held by the dead').catch(() => null))
    await waitUntil(() => mouth.held() === 1)
    const startedMs = performance.now()
    const waiting = Array.from({ length: 20 }, () => speak(second, 'held by the dead'))
    await sleep(1_000)
    t.equal(mouth.asked('held by the dead'), 1)
    await fleet.restartNode(0, 'SIGKILL')
    await Promise.all(dying)
    t.ok(await waitUntil(() => mouth.asked('held by the dead') === 2, LEASE_MS), 'one of the others asks')
    mouth.finish()
    const answers = await Promise.all(waiting)
    t.comment(`after ${Math.round(performance.now() - startedMs)} ms`)
    t.ok(
      answers.every(
        ({ status, audio }) => status === 200 && audio.equals(answers[0]?.audio ?? Buffer.alloc(0)),
      ),
    )
    t.equal(answers.filter(({ cache }) => cache === 'miss').length, 1)
    t.equal(mouth.asked('held by the dead'), 2)
    t.equal((await speak(fleet.node(0), 'held by the dead')).cache, 'hit', 'also at the node that is back')
  })

  await t.test('without the store every node makes what it has not in memory', async (t) => {
    const made = await speak(fleet.node(0), 'before the outage')
    await s3.kill()
    t.match(await speak(fleet.node(0), 'before the outage'), { cache: 'hit', audio: made.audio })
    t.match(await speak(second, 'in the outage'), { status: 200, cache: 'miss' })
    t.match(await speak(fleet.node(0), 'in the outage'), { status: 200, cache: 'miss' })
    t.match(await speak(second, 'in the outage'), { status: 200, cache: 'hit' }, 'its own memory has it')
  })
})

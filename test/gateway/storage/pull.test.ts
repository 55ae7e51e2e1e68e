import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t, { type Test } from 'tap'
import { hashKey, makeKey } from '../../../src/gateway/catalog/key.ts'
import { send, uploadsOf } from '../../support/audio-upload.ts'
import { sha256 } from '../../support/digests.ts'
import { startGateway } from '../../support/gateway.ts'
import { openBucket } from '../../support/s3-server.ts'
import { withoutServers } from '../../support/servers.ts'
import { sharedS3 } from '../../support/shared-s3.ts'
import { filledWav } from '../../support/wav.ts'

interface Received {
  readonly contentType: string | undefined
  /** URL that came in place of the audio; null: the audio itself came. */
  readonly url: string | null
  readonly status: number
  readonly sha256: string
}

/** A Deepgram that fetches what it is given a URL of. */
async function startEar(t: Test, { opens = true }: { opens?: boolean } = {}) {
  const received: Received[] = []
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const body = Buffer.concat(chunks)
    const contentType = request.headers['content-type']
    const url =
      contentType === 'application/json' ? (JSON.parse(body.toString()) as { url: string }).url : null
    const fetched = url === null ? null : await fetch(url)
    const audio = fetched === null ? body : Buffer.from(await fetched.arrayBuffer())
    received.push({ contentType, url, status: fetched?.status ?? 200, sha256: sha256(audio) })
    response.setHeader('content-type', 'application/json')
    if (url !== null && !opens) {
      response
        .writeHead(400)
        .end(JSON.stringify({ err_code: 'REMOTE_CONTENT_ERROR', err_msg: `cannot open ${url}` }))
      return
    }
    const alternatives = [{ transcript: `Heard ${sha256(audio)}`, confidence: 1, words: [] }]
    const channels = [{ alternatives, detected_language: 'en', language_confidence: 1 }]
    response.end(JSON.stringify({ metadata: { duration: 1, channels: 1 }, results: { channels } }))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  return { received, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }
}

function configOf(earUrl: string, key: string) {
  return {
    providers: {
      ear: { kind: 'deepgram', access: 'byok', workspace: 'acme', api_key: `\${EAR_KEY}`, base_url: earUrl },
    },
    routes: { voice: { workspace: 'acme', entries: [{ provider: 'ear', model: 'nova-3', pull: true }] } },
    workspaces: {
      acme: {
        apps: { web: { route: 'voice' } },
        keys: [{ id: 'key_web', app: 'web', sha256: hashKey(key) }],
      },
    },
  }
}

t.test('providers that fetch stored audio', { skip: withoutServers, timeout: 120_000 }, async (t: Test) => {
  const server = await sharedS3(t)
  const audio = filledWav(9_000_001, 7)
  const key = makeKey()
  const { raw, chunked, multipart, json } = uploadsOf(audio, `Bearer ${key}`)

  async function start(t: Test, earUrl: string) {
    const bucket = await openBucket(t, server)
    const env = {
      ...bucket.env,
      S3_PUBLIC_ENDPOINT: server.endpoint,
      EAR_KEY: 'ear',
      LARKWAY_MEMORY_MIB: '8',
    }
    return startGateway(t, { key, env: { ...env, LOG_LEVEL: 'trace' }, config: configOf(earUrl, key) })
  }

  await t.test('get a URL of what is an object by itself, and bytes of all else', async (t: Test) => {
    const ear = await startEar(t)
    const gateway = await start(t, ear.url)
    for (const upload of [raw, chunked, multipart, json])
      t.equal((await send(gateway.port, upload)).status, 200)
    t.same(
      ear.received.map(({ url, status, sha256 }) => ({ pulled: url !== null, status, sha256 })),
      [true, true, false, false].map((pulled) => ({ pulled, status: 200, sha256: sha256(audio) })),
      'the provider heard the very audio',
    )
    const [first] = ear.received
    const query = new URL(first?.url ?? '').searchParams
    const seconds = Number(query.get('X-Amz-Expires'))
    t.ok(seconds > 60 && seconds <= 120, `it opens for as long as the attempt may take: ${seconds} s`)
    t.equal((await fetch(first?.url ?? '')).status, 404, 'and the audio is gone after the call')
    t.notMatch(gateway.output.join('\n'), /X-Amz-/i, 'no line of the log has a URL')
  })

  await t.test('that cannot open the URL get the bytes', async (t: Test) => {
    const ear = await startEar(t, { opens: false })
    const gateway = await start(t, ear.url)
    t.equal((await send(gateway.port, raw)).status, 200)
    t.same(
      ear.received.map(({ url, contentType }) => [url !== null, contentType]),
      [
        [true, 'application/json'],
        [false, 'audio/wav'],
      ],
    )
    t.notMatch(
      gateway.output.join('\n'),
      /X-Amz-/i,
      'no line of the log has a URL, though the provider repeats it',
    )
  })

  await t.test('get the audio of a job', async (t: Test) => {
    const ear = await startEar(t)
    const gateway = await start(t, ear.url)
    const short = filledWav(100_000)
    const form = new FormData()
    form.set('file', new Blob([short], { type: 'audio/wav' }), 'a.wav')
    const headers = { authorization: `Bearer ${key}` }
    const submitted = await fetch(`${gateway.url}/v1/transcription/jobs`, {
      method: 'POST',
      headers,
      body: form,
    })
    const { poll_url: poll } = (await submitted.json()) as { poll_url: string }
    const url = new URL(`${poll}?wait=20`, gateway.url)
    const job = (await (await fetch(url, { headers })).json()) as { status: string }
    t.equal(job.status, 'succeeded')
    t.match(ear.received, [{ url: /X-Amz-Signature/, status: 200, sha256: sha256(short) }])
    t.notMatch(gateway.output.join('\n'), /X-Amz-/i)
  })

  await t.test('short audio is in memory, and sent from there', async (t: Test) => {
    const ear = await startEar(t)
    const gateway = await start(t, ear.url)
    t.equal((await send(gateway.port, uploadsOf(filledWav(100_000), `Bearer ${key}`).raw)).status, 200)
    t.same(
      ear.received.map(({ url }) => url),
      [null],
    )
  })
})

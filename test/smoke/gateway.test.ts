import { test } from 'tap'
import { startLarkway } from '../support/larkway.ts'
import { RawClient } from '../support/raw-client.ts'

// The whole product once through on a Node of choice: CI runs this again on Node 26 with the newer build of
// uWebSockets.js (scripts/modern-node.mjs), which the machine's own C library may be too old for.
const node = process.env.LARKWAY_SMOKE_NODE ?? process.execPath
const nodePath = process.env.LARKWAY_SMOKE_NODE_PATH ?? ''

/** What the start line must say of the build, such as `20.69.0`; unset: any build. */
const expectedUws = process.env.LARKWAY_SMOKE_UWS ?? ''
const expectedNode = process.env.LARKWAY_SMOKE_NODE_VERSION ?? process.version

test('the demo speaks, and understands what it has spoken', async (t) => {
  const larkway = await startLarkway(t, { node, env: { NODE_PATH: nodePath } })
  const authorization = `Bearer ${larkway.key}`

  const listening = larkway.log.find((line) => line.msg === 'listening')
  t.equal(listening?.port, larkway.port)
  t.match(String(listening?.uws), expectedUws || /^\d+\.\d+\.\d+/, 'the build of uWebSockets.js')
  t.equal(listening?.node, expectedNode)

  const health = await fetch(`${larkway.url}/healthz`)
  t.equal(health.status, 200)
  await health.body?.cancel()

  const anonymous = await fetch(`${larkway.url}/v1/me`)
  t.equal(anonymous.status, 401)
  t.match(await anonymous.json(), { error: { code: 'UNAUTHENTICATED' } })

  const me = await fetch(`${larkway.url}/v1/me`, { headers: { authorization } })
  t.equal(me.status, 200)
  t.match(await me.json(), { workspace: { id: 'demo' }, limits: { max_audio_bytes: 26_214_400 } })

  const client = await RawClient.connect(larkway.port)
  const head = `GET /v1/me HTTP/1.1\r\nHost: a\r\nAuthorization: ${authorization}\r\nX-LK-Purpose: support`
  await client.send(`${head}\xfc\r\n\r\n`)
  const foreign = await client.response()
  t.match([foreign?.status, `${foreign?.body}`], [400, '"param":"X-LK-Purpose"'], 'this build shows the byte')
  await client.send(`${head}\r\n\r\n`)
  t.equal((await client.response())?.status, 200)
  await client.send('BREW /v1/me HTTP/1.1\r\nHost: a\r\n\r\n')
  t.equal((await client.response())?.status, 405, 'in JSON, also to a method that nobody knows')
  client.destroy()

  const speech = await fetch(`${larkway.url}/v1/speech`, {
    method: 'POST',
    headers: { authorization, 'content-type': 'application/json' },
    body: JSON.stringify({ input: 'hello world' }),
  })
  t.equal(speech.status, 200)
  const spoken = (await speech.json()) as { content_blocks: { base64: string; media_type: string }[] }
  const block = spoken.content_blocks[0]
  const audio = Buffer.from(block?.base64 ?? '', 'base64')
  t.equal(audio.toString('latin1', 0, 4), 'RIFF')

  const form = new FormData()
  form.set('file', new Blob([audio], { type: block?.media_type ?? '' }), 'hello.wav')
  const transcription = await fetch(`${larkway.url}/v1/transcription`, {
    method: 'POST',
    headers: { authorization },
    body: form,
  })
  t.equal(transcription.status, 200)
  t.match(await transcription.json(), { content: 'hello world', status: 'succeeded' })

  const page = await (await fetch(`${larkway.url}/console`)).text()
  const [script] = page.match(/\/console\/assets\/[\w/-]+\.ts/) ?? []
  const module = await fetch(`${larkway.url}${script}`)
  t.equal(module.status, 200, 'the page is made of TypeScript, whose types each Node strips in its own way')
  t.match(module.headers.get('content-type'), 'text/javascript')

  t.equal(await larkway.signal('SIGTERM'), 0, 'ends cleanly')
})

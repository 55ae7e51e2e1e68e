import { readdir } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { multipart } from '../support/bodies.ts'
import { type DemoProcess, startDemoProcess } from '../support/demo-route.ts'
import { RawClient } from '../support/raw-client.ts'
import { filledWav } from '../support/wav.ts'

function requests(gateway: DemoProcess): Buffer[] {
  const audio = filledWav(1_500_000, 7)
  const { contentType, body } = multipart([{ name: 'file', filename: 'a.wav', body: audio }])
  const json = Buffer.from(JSON.stringify({ audio: { base64: audio.toString('base64') } }))
  const head = (type: string, framing: string) =>
    Buffer.from(
      `POST /v1/transcription HTTP/1.1\r\nHost: a\r\nAuthorization: ${gateway.authorization.authorization}\r\n` +
        `Content-Type: ${type}\r\n${framing}\r\n\r\n`,
    )
  const sized = (type: string, content: Buffer) =>
    Buffer.concat([head(type, `Content-Length: ${content.length}`), content])
  const chunk = [Buffer.from(`${audio.length.toString(16)}\r\n`), audio, Buffer.from('\r\n0\r\n\r\n')]
  return [
    sized(contentType, body),
    sized('application/json', json),
    sized('audio/wav', audio),
    Buffer.concat([head('audio/wav', 'Transfer-Encoding: chunked'), ...chunk]),
  ]
}

/** Sends a part of the request and leaves; or all of it, and leaves while the provider works or answers. */
async function leave(port: number, bytes: Buffer, at: number, waitMs: number): Promise<void> {
  const client = await RawClient.connect(port)
  const cut = Math.round(bytes.length * at)
  await Promise.race([client.send(bytes.subarray(0, cut)), sleep(2_000)])
  await sleep(waitMs)
  if (waitMs % 2 === 0) client.socket.resetAndDestroy()
  else client.destroy()
}

async function assertIdle(t: Test, gateway: DemoProcess): Promise<void> {
  const me = await fetch(`${gateway.url}/v1/me`, { headers: gateway.authorization })
  t.equal(me.status, 200, 'the server still answers')
  const files = await readdir(gateway.dataFolder, { recursive: true, withFileTypes: true })
  const objects = files.filter((file) => file.isFile() && file.parentPath.includes('spool'))
  t.same(
    objects.map(({ name }) => name),
    [],
    'no object is left',
  )
  t.equal(await gateway.signal('SIGTERM'), 0)
  const last = gateway.log.at(-1)
  t.match(last, { msg: 'stopped', held_bytes: 0, bodies: { arriving: 0, uploading: 0 } }, 'no memory is held')
  const broken = gateway.log.filter(
    ({ level, error }) => level === 'error' || level === 'fatal' || error === 'INTERNAL',
  )
  t.same(broken, [], 'nothing broke')
}

const ROUNDS = 1_000
const AT_ONCE = 20

for (const [tier, memory] of [
  ['memory', '256'],
  ['store', '8'],
] as const) {
  t.test(`${ROUNDS / 2} clients that leave at any moment, ${tier} tier`, { timeout: 200_000 }, async (t) => {
    const gateway = await startDemoProcess(t, {
      entries: [{ delay_ms: 40 }],
      env: { LARKWAY_MEMORY_MIB: memory },
    })
    const whole = requests(gateway)
    let left = ROUNDS / 2
    const client = async () => {
      while (left > 0) {
        left -= 1
        const bytes = whole[left % whole.length] as Buffer
        // A third leaves after the last byte: while the audio is probed, sent on, or the answer is on its way.
        const at = left % 3 === 0 ? 1 : Math.random()
        await leave(gateway.port, bytes, at, Math.round(Math.random() * 120))
      }
    }
    await Promise.all(Array.from({ length: AT_ONCE }, client))
    await sleep(1_000)
    await assertIdle(t, gateway)
  })
}

t.test('a keep-alive connection goes on after answers of every kind', { timeout: 60_000 }, async (t) => {
  const gateway = await startDemoProcess(t)
  const client = await RawClient.connect(gateway.port)
  const [form, json, raw] = requests(gateway) as [Buffer, Buffer, Buffer]
  for (let round = 0; round < 4; round += 1) {
    for (const bytes of [form, json, raw]) {
      await client.send(bytes)
      t.equal((await client.response({ timeoutMs: 20_000 }))?.status, 200)
      await client.send('GET /v1/nothing HTTP/1.1\r\nHost: a\r\n\r\n')
      t.equal((await client.response())?.status, 404)
    }
  }
  client.destroy()
})

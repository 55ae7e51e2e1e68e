import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { startSandboxThread } from '../../src/sandbox/thread.ts'
import { noise, wav } from '../support/tone.ts'

const fail = (error: Error) => {
  throw error
}

t.test('the thread answers, and its work stays off this loop', async (t) => {
  const sandbox = await startSandboxThread({}, fail)
  t.match(sandbox.url, new RegExp(`^http://127\\.0\\.0\\.1:${sandbox.port}/v1$`))
  const form = () => {
    const body = new FormData()
    body.append('model', 'morse-1')
    body.append('file', new Blob([Uint8Array.from(audio)]), 'noise.wav')
    return body
  }
  const audio = wav([noise(6_000_000, 0.1)], 8000)
  const before = performance.eventLoopUtilization()
  const reply = await fetch(`${sandbox.url}/audio/transcriptions`, { method: 'POST', body: form() })
  const { idle, active } = performance.eventLoopUtilization(before)
  t.match(await reply.json(), { text: /^750 seconds of sound/ })
  t.ok(idle > active, `this loop was idle for ${idle.toFixed(0)} ms and busy for ${active.toFixed(0)} ms`)
  await sandbox.close()
  await t.rejects(fetch(`${sandbox.url}/models`), 'closed')
  await t.resolves(sandbox.close(), 'closing twice is no harm')
})

t.test('a port that is taken is an error of the start', async (t) => {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  const { port } = server.address() as AddressInfo
  await t.rejects(startSandboxThread({ port }, fail), { code: 'EADDRINUSE' })
})

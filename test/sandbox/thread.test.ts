import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { BUILT_IN_SANDBOX } from '../../src/contracts/provider.ts'
import { createSender } from '../../src/gateway/outbound/send.ts'
import { BuiltInSandbox, startSandboxThread } from '../../src/sandbox/thread.ts'
import { memoryAudio } from '../support/memory-audio.ts'
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

t.test('a provider of the kind without an address is served by the sandbox of the node', async (t) => {
  const sandbox = new BuiltInSandbox(fail)
  const sender = createSender({ reader: memoryAudio(new Uint8Array(0), 'identity').reader, inner: sandbox })
  t.teardown(() => sender.close())
  const models = () =>
    sender.send(
      { method: 'GET', url: `${BUILT_IN_SANDBOX}/models`, headers: {}, body: [] },
      { deadlineMs: 10_000, signal: new AbortController().signal, onHeld: () => {} },
    )
  t.match(await models(), { status: 200 })
  const { port } = await sandbox.get()
  t.equal(await sandbox.port(), port, 'it is started once')
  await sandbox.close()
  await t.rejects(models(), 'and ends with the node')
})

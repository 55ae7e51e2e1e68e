import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { startMeteredNode } from '../../../support/metered-node.ts'
import { RawClient } from '../../../support/raw-client.ts'
import { waitUntil } from '../../../support/wait-until.ts'

const FAILURES = 'larkway_request_failures_total'

t.test('what the log calls an error is counted, and nothing else', { timeout: 60_000 }, async (t) => {
  const node = await startMeteredNode(t)
  const status = async (asked: Promise<Response>) => {
    const answer = await asked
    await answer.arrayBuffer()
    return answer.status
  }
  t.equal(await status(node.ask('GET', '/v1/me')), 200)
  t.equal(await status(node.ask('GET', '/v1/me', undefined, { authorization: 'Bearer nobody' })), 401)
  t.equal(await status(node.ask('GET', '/nowhere')), 404, 'the edge refuses it')
  t.equal(await status(node.ask('DELETE', '/v1/me')), 405)
  t.equal(await status(node.ask('GET', '/results/none')), 404, 'a path that takes no key')

  const lengthless = await RawClient.connect(node.port)
  t.teardown(() => lengthless.destroy())
  await lengthless.send(`POST /v1/speech HTTP/1.1\r\nHost: a\r\nAuthorization: ${node.authorization}\r\n\r\n`)
  t.equal((await lengthless.response({ timeoutMs: 30_000 }))?.status, 411)

  const leaving = await RawClient.connect(node.port)
  const body = JSON.stringify({ input: 'hello' })
  await leaving.send(
    `POST /v1/speech HTTP/1.1\r\nHost: a\r\nAuthorization: ${node.authorizations.slow}\r\n` +
      `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
  )
  await sleep(300)
  leaving.destroy()

  const errors = () => node.log.flatMap(({ msg, error }) => (msg === 'request' && error ? [error] : []))
  t.ok(await waitUntil(() => errors().length === 6, 20_000), `the log tells of ${errors().join(', ')}`)
  const logged: Record<string, number> = {}
  for (const code of errors()) logged[String(code)] = (logged[String(code)] ?? 0) + 1
  const counted = (await node.scrape()).samples
    .filter(({ name }) => name === FAILURES)
    .map(({ labels, value }) => [labels.code, value] as const)
  t.same(Object.fromEntries(counted), logged)
  t.equal(logged.CLIENT_CLOSED, 1)
})

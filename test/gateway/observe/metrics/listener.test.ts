import { request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { startMetricsListener } from '../../../../src/gateway/observe/metrics/listener.ts'

const PLACE = { host: '127.0.0.1', port: 0 }

/** The status of an answer, and what it says. */
function ask(port: number, path: string, method = 'GET'): Promise<{ status: number; text: string }> {
  return new Promise((resolve, reject) => {
    const asking = request({ port, path, method }, (response) => {
      let text = ''
      response.on('data', (chunk) => {
        text += chunk
      })
      response.on('end', () => resolve({ status: response.statusCode ?? 0, text }))
    })
    asking.on('error', reject).end()
  })
}

t.test('metrics are at one path, by one method', async (t) => {
  const listener = await startMetricsListener(PLACE, async () => 'larkway_level 1\n')
  t.teardown(() => listener.close())
  t.same(await ask(listener.port, '/metrics'), { status: 200, text: 'larkway_level 1\n' })
  t.equal((await ask(listener.port, '/metrics?name[]=a')).status, 200)
  t.same(await ask(listener.port, '/healthz'), { status: 200, text: 'ok\n' }, 'for probes of workers')
  for (const path of ['/', '/metrics/', '/metrics/..', '/v1/me', '//metrics', '/%6detrics'])
    t.equal((await ask(listener.port, path)).status, 404, path)
  for (const method of ['POST', 'PUT', 'DELETE', 'HEAD', 'OPTIONS', 'TRACE'])
    t.equal((await ask(listener.port, '/metrics', method)).status, 404, method)
  const response = await fetch(`http://127.0.0.1:${listener.port}/metrics`)
  t.equal(response.headers.get('content-type'), 'text/plain; version=0.0.4; charset=utf-8')
})

t.test('a failure says nothing of itself', async (t) => {
  const listener = await startMetricsListener(PLACE, () => Promise.reject(new Error('secret')))
  t.teardown(() => listener.close())
  t.same(await ask(listener.port, '/metrics'), { status: 500, text: '' })
})

t.test('an address that is taken is said at the start', async (t) => {
  const listener = await startMetricsListener(PLACE, async () => '')
  t.teardown(() => listener.close())
  const { port } = listener
  await t.rejects(
    startMetricsListener({ ...PLACE, port }, async () => ''),
    { message: `metrics: cannot listen on 127.0.0.1:${port}` },
  )
})

t.test('it closes while it is asked', async (t) => {
  const listener = await startMetricsListener(PLACE, () => sleep(60_000, '', { ref: false }))
  const asked = ask(listener.port, '/metrics').catch(({ code }: NodeJS.ErrnoException) => code)
  await sleep(100)
  await listener.close()
  t.equal(await asked, 'ECONNRESET')
})

import { Redis } from 'ioredis'
import type { Teardown } from './scratch.ts'
import type { Daemon } from './servers.ts'

/** Starts a server that speaks Redis's protocol, ended with the test. @returns a plain connection to it */
export async function startAndConnect(t: Teardown, daemon: Daemon, port: number): Promise<Redis> {
  t.teardown(() => daemon.kill())
  const client = new Redis({ host: '127.0.0.1', port, lazyConnect: true, retryStrategy: () => 50 })
  client.on('error', () => {})
  t.teardown(() => client.disconnect())
  await daemon.start(() =>
    client.ping().then(
      (pong) => pong === 'PONG',
      () => false,
    ),
  )
  return client
}

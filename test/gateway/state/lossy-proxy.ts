import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import type { Teardown } from '../../support/scratch.ts'

export interface LossyProxy {
  /** As of the server behind it. */
  readonly url: string
  /** The next command that names this arrives and is executed; its answer is lost, and so is every later one. */
  loseAnswerOf(name: string): void
  /** Cuts the connections whose answers were lost; new ones are served well. */
  heal(): void
}

/** Stands between a client and Redis, and loses answers when told. */
export async function startProxy(t: Teardown, redisPort: number): Promise<LossyProxy> {
  const sockets = new Set<Socket>()
  let fatal: string | null = null
  let losing = false
  const server = createServer((client) => {
    const redis = connect(redisPort, '127.0.0.1')
    client.on('data', (command) => {
      if (fatal !== null && command.includes(fatal)) losing = true
      redis.write(command)
    })
    redis.on('data', (answer) => {
      if (!losing) client.write(answer)
    })
    for (const [socket, other] of [
      [client, redis],
      [redis, client],
    ] as const) {
      sockets.add(socket)
      socket.on('error', () => {})
      socket.on('close', () => {
        sockets.delete(socket)
        other.destroy()
      })
    }
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const cut = () => {
    for (const socket of sockets) socket.destroy()
  }
  t.teardown(() => {
    server.close()
    cut()
  })
  return {
    url: `redis://127.0.0.1:${(server.address() as AddressInfo).port}`,
    loseAnswerOf(name) {
      fatal = name
    },
    heal() {
      fatal = null
      losing = false
      cut()
    },
  }
}

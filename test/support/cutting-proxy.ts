import { connect, createServer } from 'node:net'
import { listen } from './http-server.ts'
import type { Teardown } from './scratch.ts'

export interface CuttingProxy {
  readonly url: string
  /** Where connections lead from now on. */
  port: number
  /** Connections that were cut. */
  readonly cuts: number
}

/**
 * Stands in front of a server of this machine, and cuts connections without a word, as networks do.
 *
 * @param bytesOf of the client on the next connection until it is cut; null: it is left alone
 * @param onSent is told how many bytes of a client were passed on
 */
export async function cuttingProxy(
  t: Teardown,
  port: number,
  bytesOf: () => number | null,
  onSent: (bytes: number) => void = () => {},
): Promise<CuttingProxy> {
  const proxy = { url: '', port, cuts: 0 }
  const server = createServer((client) => {
    const upstream = connect(proxy.port, '127.0.0.1')
    let left = bytesOf() ?? Number.POSITIVE_INFINITY
    const end = () => {
      client.destroy()
      upstream.destroy()
    }
    for (const socket of [client, upstream]) socket.on('error', end).on('close', end)
    upstream.pipe(client)
    client.on('data', (chunk) => {
      left -= chunk.length
      onSent(chunk.length)
      if (left > 0) {
        if (upstream.write(chunk)) return
        client.pause()
        upstream.once('drain', () => client.resume())
        return
      }
      proxy.cuts += 1
      upstream.write(chunk.subarray(0, chunk.length + left), end)
    })
  })
  proxy.url = await listen(t, server)
  return proxy
}

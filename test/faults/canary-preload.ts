/**
 * Goes before the product in its process (`--import`). It lays one host of the internet into this machine, as the guard
 * of outbound requests has no switch that would: every name leads to 8.8.8.8, and that leads to the port in
 * CANARY_HOST_PORT. And it breaks the process on SIGUSR2, with an error on which hangs what clients of stores leave
 * there.
 */
import { Resolver } from 'node:dns/promises'
import { syncBuiltinESMExports } from 'node:module'
import net, { type NetConnectOpts } from 'node:net'
import { isMainThread } from 'node:worker_threads'

const HOST = '8.8.8.8'

const connect = net.connect
const connectToHost = (options: NetConnectOpts | string) => {
  if (typeof options === 'string') return connect(options)
  if (!('host' in options) || options.host !== HOST) return connect(options)
  const socket = connect({ host: '127.0.0.1', port: Number(process.env.CANARY_HOST_PORT) })
  Object.defineProperty(socket, 'remoteAddress', { get: () => HOST })
  return socket
}
net.connect = connectToHost as typeof net.connect
Object.assign(Resolver.prototype, { resolve4: async () => [HOST], resolve6: async () => [] })
syncBuiltinESMExports()

if (isMainThread) {
  process.on('SIGUSR2', () => {
    const secret = process.env.CANARY_CRASH ?? ''
    const command = { name: 'evalsha', args: ['sha', '1', 'key', secret] }
    // As an event handler of a client would: nobody catches it.
    const broken = Object.assign(new Error('READONLY You can’t write'), {
      command,
      input: Buffer.from(secret),
    })
    setImmediate(() => void Promise.reject(broken))
  })
}

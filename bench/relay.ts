import { connect, createServer, type NetConnectOpts } from 'node:net'
import { pipeline } from 'node:stream'
import { answerTasks } from './load/task.ts'

// Carries TCP connections from one network namespace to another: a relay in each, a Unix socket between them.
// usage: node bench/relay.ts LISTEN CONNECT, each a path, a port of 127.0.0.1, or HOST:PORT

const [listen = '', target = ''] = process.argv.slice(2)

createServer({ noDelay: true }, (client) => {
  const server = connect(address(target))
  pipeline(client, server, () => {})
  pipeline(server, client, () => {})
}).listen(address(listen), () => answerTasks(async () => 'listening'))

function address(text: string): NetConnectOpts {
  const [, host = '127.0.0.1', port] = /^(?:(.+):)?(\d+)$/.exec(text) ?? []
  return port === undefined ? { path: text } : { host, port: Number(port), noDelay: true }
}

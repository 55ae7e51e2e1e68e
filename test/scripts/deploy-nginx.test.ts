import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { startNginx } from '../support/nginx-server.ts'
import { withoutServers } from '../support/servers.ts'
import { waitUntil } from '../support/wait-until.ts'

const CALLERS = 8
const BODY = 'x'.repeat(2_000)
const LOOKS_PER_SECOND = 5

/** Something that answers where nginx expects a node, and may say that it leaves. */
class Node {
  leaves = false
  posts = 0
  looks = 0
  port = 0

  async listen(t: Test): Promise<this> {
    const server = createServer((request, response) => this.#answer(request, response))
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    t.teardown(() => server.closeAllConnections())
    t.teardown(() => server.close())
    this.port = (server.address() as AddressInfo).port
    return this
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    const isLook = request.url === '/readyz'
    if (isLook) this.looks += 1
    else if (request.method === 'POST') this.posts += 1
    // A look that has a body, or a key, is not one.
    const isOdd = isLook && (request.headers['content-length'] ?? request.headers.authorization) !== undefined
    request.resume().on('end', () => {
      response.writeHead(isLook && this.leaves ? 503 : isOdd ? 400 : 200).end('{}')
    })
  }
}

t.test('nginx leaves a node that says it leaves, by POSTs alone', { skip: withoutServers }, async (t) => {
  const nodes = [await new Node().listen(t), await new Node().listen(t), await new Node().listen(t)] as const
  const [first, second, third] = nodes
  const nginx = await startNginx(t, [first.port, second.port, third.port])
  const statuses = new Set<number>()
  let over = false
  const call = async () => {
    while (!over) {
      const headers = { authorization: 'Bearer a', connection: 'keep-alive' }
      const response = await fetch(`${nginx.url}/v1/speech`, { method: 'POST', headers, body: BODY })
      await response.arrayBuffer()
      statuses.add(response.status)
    }
  }
  const startMs = performance.now()
  const calls = Array.from({ length: CALLERS }, call)
  t.ok(await waitUntil(() => nodes.every(({ posts }) => posts > 20)), 'all of them serve')

  second.leaves = true
  const { looks } = second
  t.ok(await waitUntil(() => second.looks > looks), 'it is asked')
  await sleep(500)
  const { posts } = second
  await sleep(3_000)
  t.equal(second.posts, posts, 'and gets nothing then')
  const seconds = (performance.now() - startMs) / 1_000
  const asked = nodes.reduce((sum, node) => sum + node.looks, 0)
  t.ok(asked <= seconds * LOOKS_PER_SECOND + 5, `${asked} looks in ${Math.round(seconds)} s`)

  first.leaves = third.leaves = true
  await sleep(3_000)
  t.same(statuses, new Set([200]), 'when all leave, they are asked all the same')
  second.leaves = false
  t.ok(await waitUntil(() => second.posts > posts), 'one that is back is found')
  over = true
  await Promise.all(calls)
  t.same(statuses, new Set([200]), 'nobody has noticed')
})

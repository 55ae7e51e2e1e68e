import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import type { Test } from 'tap'
import { type Fleet, startFleet } from '../support/fleet.ts'
import { serveHttp } from '../support/http-server.ts'
import { waitUntil } from '../support/wait-until.ts'

/** How often each end user calls. */
const CALLS = 10
/** Calls that the budget of each pays for. */
const PAID = 3
/** End users whose calls are under way at a time. */
const LANES = 12
/** `hello` is taken for two tokens, which is what the provider tells, at 1 USD for a million. */
const COST_MICROS = 2
const USAGE = { prompt_tokens: 2, total_tokens: 2 }

const body = JSON.stringify({ input: 'hello' })

interface Reply {
  readonly status: number
  readonly text: string
}

/**
 * A connection with one request at a time, and no more of HTTP than that takes: what asks a million times must not take
 * more of the machine than what is asked.
 */
class Connection {
  readonly #socket: Socket
  #answer: (reply: Reply) => void = () => {}
  #fail: (error: Error) => void = () => {}
  #text = ''

  private constructor(socket: Socket) {
    this.#socket = socket
    socket
      .setEncoding('latin1')
      .on('data', (text: string) => this.#read(text))
      .on('error', (error) => this.#fail(error))
      .on('close', () => this.#fail(new Error('the connection was closed')))
  }

  static async open(port: number): Promise<Connection> {
    const socket = connect(port, '127.0.0.1').setNoDelay(true)
    await once(socket, 'connect')
    return new Connection(socket)
  }

  /** @param request all of its bytes */
  ask(request: string): Promise<Reply> {
    return new Promise((resolve, reject) => {
      this.#answer = resolve
      this.#fail = reject
      this.#socket.write(request, 'latin1')
    })
  }

  close(): void {
    this.#socket.destroy()
  }

  #read(text: string): void {
    this.#text += text
    const headEnd = this.#text.indexOf('\r\n\r\n')
    if (headEnd < 0) return
    const head = this.#text.slice(0, headEnd)
    const length = Number(/\r\ncontent-length: (\d+)/i.exec(head)?.[1])
    if (Number.isNaN(length)) throw new Error(`an answer without a length: ${head}`)
    if (this.#text.length < headEnd + 4 + length) return
    const answered = this.#text.slice(headEnd + 4)
    this.#text = ''
    this.#answer({ status: Number(head.slice(9, 12)), text: answered })
  }
}

/** A provider that remembers nothing of a million calls but their number. */
async function startProvider(t: Test) {
  const data = [{ object: 'embedding', index: 0, embedding: [0.5, -0.5] }]
  const answer = JSON.stringify({ object: 'list', model: 'm', data, usage: USAGE })
  let asked = 0
  const origin = await serveHttp(t, (request, response) => {
    request.resume().on('end', () => {
      asked += 1
      response.setHeader('content-type', 'application/json').end(answer)
    })
  })
  return { origin, asked: () => asked }
}

const idOf = (index: number) => `customer-${index}@shop.example`

/**
 * Makes the calls of each end user at once, at both nodes.
 *
 * @returns calls that were answered, by end user; and the answers that are neither good nor over the budget
 */
async function callAll({ nodes, authorizationOf }: Fleet, workspace: string, endUsers: number) {
  const head = [
    'POST /openai/v1/embeddings HTTP/1.1\r\nhost: a',
    `authorization: ${authorizationOf(workspace)}`,
    `content-type: application/json\r\ncontent-length: ${body.length}`,
  ].join('\r\n')
  const answered = new Uint8Array(endUsers)
  const strange: string[] = []
  let next = 0
  const call = async (index: number, connection: Connection) => {
    const reply = await connection.ask(`${head}\r\nx-lk-end-user: ${idOf(index)}\r\n\r\n${body}`)
    if (reply.status === 200) answered[index] = (answered[index] ?? 0) + 1
    else if (reply.status !== 402 || !reply.text.includes('"budget":"end_user"'))
      strange.push(`${reply.status} ${reply.text}`)
  }
  const lane = async () => {
    const connections = await Promise.all(
      Array.from({ length: CALLS }, (_, n) => Connection.open(nodes[n % nodes.length]!.port)),
    )
    for (let at = next++; at < endUsers; at = next++) {
      // The lines of a million requests would fill the memory of the test.
      if (at % 1_000 === 0)
        for (const { log, output } of nodes) {
          ;(log as unknown[]).length = 0
          ;(output as unknown[]).length = 0
        }
      await Promise.all(connections.map((connection) => call(at, connection)))
    }
    for (const connection of connections) connection.close()
  }
  await Promise.all(Array.from({ length: LANES }, lane))
  return { answered, strange }
}

/** Holds the budgets of so many end users to the call, over two nodes that share a Redis. */
export async function exactBudgets(t: Test, endUsers: number): Promise<void> {
  const provider = await startProvider(t)
  const entry = {
    provider: 'one',
    model: 'm',
    capabilities: ['embeddings'],
    price: { per_1m_input_tokens_usd: 1 },
  }
  const budget = { budget_usd: { per_month: (PAID * COST_MICROS) / 1_000_000 } }
  const fleet = await startFleet(t, {
    providers: { one: { kind: 'openai-compatible', base_url: `${provider.origin}/v1`, access: 'platform' } },
    workspaces: {
      // Its own money is leased by the nodes: what has a budget of an end user must not go by that.
      all: { entries: [entry], terms: { end_users: budget, credits_usd: 1_000_000, grant_id: 'initial' } },
    },
    nodes: 2,
    redis: {},
  })
  const startedMs = performance.now()
  const { answered, strange } = await callAll(fleet, 'all', endUsers)
  const seconds = ((performance.now() - startedMs) / 1000).toFixed(1)
  t.same(strange.slice(0, 5), [], 'every other call is over the budget of its end user')
  t.equal(
    answered.findIndex((calls) => calls !== PAID),
    -1,
    'each has as many answers as its budget pays for',
  )
  t.equal(provider.asked(), endUsers * PAID, 'and the provider was asked as often')
  const { accounts } = await fleet.openState()
  const NO_TERMS = { grant: null, trial: null, budgetMicros: null }
  const peaks = await Promise.all(fleet.nodes.map((node) => node.peakRssMiB()))
  const mib = peaks.map((peak) => Math.round(peak)).join(' and ')
  t.comment(`${endUsers} × ${CALLS} calls in ${seconds} s; the nodes took ${mib} MiB`)
  t.ok(await waitUntil(async () => (await accounts.show('all', NO_TERMS)).reservedMicros === 0))
  const { spentMicros } = await accounts.show('all', NO_TERMS)
  t.equal(spentMicros, endUsers * PAID * COST_MICROS, 'and so much was charged')
}

import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { nameOfCommand } from './redis-monitor.ts'
import type { Teardown } from './scratch.ts'

/** Where the value that begins at `at` ends, in Redis's protocol of either version; null when it is not all there. */
function endOfValue(bytes: Buffer, at: number): number | null {
  const lineEnd = bytes.indexOf('\r\n', at)
  if (lineEnd < 0) return null
  const next = lineEnd + 2
  const type = String.fromCharCode(bytes[at] ?? 0)
  const size = Number(bytes.toString('latin1', at + 1, lineEnd))
  switch (type) {
    case '$':
    case '=':
    case '!':
      if (size < 0) return next
      return bytes.length < next + size + 2 ? null : next + size + 2
    case '*':
    case '~':
    case '>':
      return endOfValues(bytes, next, size)
    case '%':
      return endOfValues(bytes, next, size * 2)
    default:
      return next
  }
}

function endOfValues(bytes: Buffer, at: number, count: number): number | null {
  let end: number | null = at
  for (let index = 0; index < count && end !== null; index++) end = endOfValue(bytes, end)
  return end
}

/** The words of a command as clients send it: an array of strings. */
function wordsOf(command: Buffer): string[] {
  const words: string[] = []
  let at = command.indexOf('\r\n') + 2
  while (at < command.length) {
    const lineEnd = command.indexOf('\r\n', at)
    const size = Number(command.toString('latin1', at + 1, lineEnd))
    words.push(command.toString('utf8', lineEnd + 2, lineEnd + 2 + size))
    at = lineEnd + 2 + size + 2
  }
  return words
}

/** Cuts a stream of bytes into whole values. */
class RespReader {
  #rest: Buffer = Buffer.alloc(0)

  /** @returns the values that are whole with these bytes, as they came */
  push(bytes: Buffer): Buffer[] {
    this.#rest = this.#rest.length === 0 ? bytes : Buffer.concat([this.#rest, bytes])
    const values: Buffer[] = []
    let at = 0
    for (;;) {
      const end = at < this.#rest.length ? endOfValue(this.#rest, at) : null
      if (end === null) break
      values.push(this.#rest.subarray(at, end))
      at = end
    }
    this.#rest = this.#rest.subarray(at)
    return values
  }
}

/**
 * What becomes of a command on its way. `hold`: it does not reach Redis, nor does what follows on its connection, until
 * `letGo`; when its sender goes, it is dropped. `hold the answer`: it is executed, and its sender does not hear of it.
 * `leave behind`: as `hold`, but it stays when its sender goes, and `letGo` has it executed. The cuts break both
 * sides of the connection: before Redis has seen it, with half of it there, when it was executed, with half of its
 * answer told.
 */
export type Verdict =
  | 'pass'
  | 'hold'
  | 'hold the answer'
  | 'leave behind'
  | 'cut before'
  | 'cut inside'
  | 'cut after'
  | 'cut inside the answer'

export interface ProxiedCommand {
  /** As `nameOfCommand` has it. */
  readonly name: string
  readonly words: readonly string[]
}

export interface RedisProxy {
  /** `redis://127.0.0.1:<port>` */
  readonly url: string
  /** Asked about every command when it arrives. */
  judge: (command: ProxiedCommand) => Verdict
  /** How many commands of that name came since the start. */
  arrived(name: string): number
  /** How many of them were executed: Redis has answered. */
  executed(name: string): number
  /** Connections of clients that are open. */
  readonly connections: number
  /** Lets go on what is held now. */
  letGo(): void
  /** Breaks all connections. */
  cut(): void
}

/** Stands in front of a real Redis and knows the commands that pass, whatever becomes of them. Until the test ends. */
export async function startRedisProxy(t: Teardown, redisPort: number): Promise<RedisProxy> {
  const arrived = new Map<string, number>()
  const executed = new Map<string, number>()
  const links = new Set<Link>()
  const left = new Set<Link>()
  const count = (counts: Map<string, number>, name: string) => counts.set(name, (counts.get(name) ?? 0) + 1)
  const proxy = {
    judge: (_command: ProxiedCommand): Verdict => 'pass',
    arrived: (name: string) => arrived.get(name) ?? 0,
    executed: (name: string) => executed.get(name) ?? 0,
    get connections() {
      return links.size
    },
    letGo() {
      for (const link of [...links, ...left]) link.letGo()
      left.clear()
    },
    cut() {
      for (const link of links) link.cut()
    },
  }
  const server = createServer({ noDelay: true }, (client) => {
    const link = new Link(client, redisPort, {
      arrived(command) {
        count(arrived, command.name)
        return proxy.judge(command)
      },
      executed: (name) => count(executed, name),
      ended(keeps) {
        links.delete(link)
        if (keeps) left.add(link)
      },
    })
    links.add(link)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.close()
    for (const link of [...links, ...left]) link.cut()
  })
  return Object.assign(proxy, { url: `redis://127.0.0.1:${(server.address() as AddressInfo).port}` })
}

interface Watch {
  arrived(command: ProxiedCommand): Verdict
  executed(name: string): void
  /** @param keeps it has commands that outlive their sender */
  ended(keeps: boolean): void
}

interface Pending {
  readonly name: string
  readonly verdict: Verdict
}

/** One client's connection, and the one to Redis that belongs to it. */
class Link {
  readonly #client: Socket
  readonly #redis: Socket
  readonly #watch: Watch
  /** Commands that Redis has not answered, in order. */
  readonly #pending: Pending[] = []
  #heldCommands: { readonly bytes: Buffer; readonly pending: Pending }[] | null = null
  #heldAnswers: Buffer[] | null = null
  #leftBehind = false

  constructor(client: Socket, redisPort: number, watch: Watch) {
    this.#client = client
    this.#watch = watch
    this.#redis = connect({ port: redisPort, host: '127.0.0.1', noDelay: true })
    const [commands, answers] = [new RespReader(), new RespReader()]
    client.on('data', (bytes: Buffer) => {
      for (const command of commands.push(bytes)) if (!this.#client.destroyed) this.#take(command)
    })
    this.#redis.on('data', (bytes: Buffer) => {
      for (const answer of answers.push(bytes)) this.#answer(answer)
    })
    for (const socket of [client, this.#redis]) socket.on('error', () => {})
    client.on('close', () => {
      this.#watch.ended(this.#leftBehind)
      if (!this.#leftBehind) this.#redis.destroy()
    })
    this.#redis.on('close', () => client.destroy())
  }

  cut(): void {
    this.#leftBehind = false
    this.#client.destroy()
    this.#redis.destroy()
  }

  letGo(): void {
    const commands = this.#heldCommands ?? []
    this.#heldCommands = null
    for (const { bytes, pending } of commands) this.#pass(bytes, pending)
    const answers = this.#heldAnswers ?? []
    this.#heldAnswers = null
    for (const answer of answers) this.#client.write(answer)
    // What follows is said behind what was just passed on.
    if (this.#leftBehind) this.#redis.end()
  }

  #take(bytes: Buffer): void {
    const words = wordsOf(bytes)
    const name = nameOfCommand(words)
    const verdict = this.#watch.arrived({ name, words })
    const pending = { name, verdict }
    if (verdict === 'hold' || verdict === 'leave behind') this.#heldCommands ??= []
    if (verdict === 'leave behind') this.#leftBehind = true
    if (this.#heldCommands === null) this.#pass(bytes, pending)
    else this.#heldCommands.push({ bytes, pending })
  }

  #pass(bytes: Buffer, pending: Pending): void {
    const { verdict } = pending
    if (verdict === 'cut before') {
      this.cut()
    } else if (verdict === 'cut inside') {
      this.#client.destroy()
      this.#redis.end(halfOf(bytes))
    } else {
      this.#pending.push(pending)
      this.#redis.write(bytes)
    }
  }

  #answer(bytes: Buffer): void {
    // A push answers nothing. A server that does not know the script has executed nothing: it is sent again whole.
    const isPush = bytes[0] === '>'.charCodeAt(0)
    const pending = isPush ? undefined : this.#pending.shift()
    const unknown = bytes.toString('latin1', 0, 9) === '-NOSCRIPT'
    const verdict = pending === undefined || unknown ? 'pass' : pending.verdict
    if (pending !== undefined && !unknown) this.#watch.executed(pending.name)
    if (verdict === 'hold the answer') this.#heldAnswers ??= []
    if (verdict === 'cut after') {
      this.cut()
    } else if (verdict === 'cut inside the answer') {
      this.#redis.destroy()
      this.#client.end(halfOf(bytes))
    } else if (this.#heldAnswers === null) {
      this.#client.write(bytes)
    } else {
      this.#heldAnswers.push(bytes)
    }
  }
}

function halfOf(bytes: Buffer): Buffer {
  return bytes.subarray(0, Math.floor(bytes.length / 2))
}

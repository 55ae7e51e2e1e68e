import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { GatewayError } from '../../../contracts/errors.ts'
import { within } from '../../../contracts/time.ts'
import type { RedisConnection } from './connect.ts'

interface ScriptShape<Key extends string, Arg extends string, Reply> {
  /** Names of the Redis keys, in the order of the file's `KEYS` line. */
  readonly keys: readonly Key[]
  /** Names of the arguments, in the order of the file's `ARGV` line; absent: it has none. */
  readonly args?: readonly Arg[]
  /** Another file, with functions that this one calls: it runs in front of it. */
  readonly steps?: string
  /** Commands sent later are executed later: the text goes along each time, not only its digest. */
  readonly isOrdered?: true
  /** Makes the typed answer out of what Redis replied; absent: there is none. */
  readonly reply?: (reply: unknown) => Reply
}

/** Runs something on a connection. Rejects with what Redis or the connection answers. */
export type Command<Answer> = (redis: RedisConnection) => Promise<Answer>

/** Makes the command that runs a script with its inputs by name. */
type Script<Name extends string, Reply> = (inputs: Readonly<Record<Name, string | number>>) => Command<Reply>

/**
 * A Lua file of this folder as a typed function. Inputs are named, so that no caller counts positions.
 *
 * @throws Error at import when the names differ from the header of the file, which is what its code goes by
 */
export function script<Key extends string, Arg extends string = never, Reply = void>(
  name: string,
  shape: ScriptShape<Key, Arg, Reply>,
): Script<Key | Arg, Reply> {
  const { args = [], reply: answerOf = () => undefined as Reply } = shape
  const own = readLua(name)
  compareHeader(name, own, 'KEYS', shape.keys)
  compareHeader(name, own, 'ARGV', args)
  const lua = shape.steps === undefined ? own : readLua(shape.steps) + own
  const sha = createHash('sha1').update(lua).digest('hex')
  const order: readonly (Key | Arg)[] = [...shape.keys, ...args]

  return (inputs) => async (redis) => {
    const values = order.map((input) => inputs[input])
    if (shape.isOrdered) return answerOf(await redis.eval(lua, shape.keys.length, ...values))
    try {
      return answerOf(await redis.evalsha(sha, shape.keys.length, ...values))
    } catch (error) {
      // The server has not run it yet, or forgot it in a restart: nothing was executed, so sending it whole is safe.
      if (!(error instanceof Error) || !error.message.startsWith('NOSCRIPT')) throw error
      return answerOf(await redis.eval(lua, shape.keys.length, ...values))
    }
  }
}

function readLua(name: string): string {
  return readFileSync(new URL(`./${name}.lua`, import.meta.url), 'utf8')
}

/** Compares names with the `-- KEYS …` or `-- ARGV …` line of a script's header, and the indented lines after it. */
export function compareHeader(
  name: string,
  lua: string,
  line: 'KEYS' | 'ARGV',
  names: readonly string[],
): void {
  const header = lua.slice(0, lua.search(/^(?!--)/m))
  const [, inputs = ''] = new RegExp(`^-- ${line}(.*(?:\\n-- {2,}.*)*)$`, 'm').exec(header) ?? []
  const written = inputs
    .split(/\s+(?:--)?/)
    .filter(Boolean)
    .join(' ')
  const expected = names.join(' ')
  if (written === expected) return
  throw new Error(`${name}.lua: ${line} is "${written}", code says "${expected}"`)
}

/** Longest that a caller waits. */
const LIMIT_MS = 2_000

/**
 * Runs a command on the connection.
 *
 * @throws GatewayError DEPENDENCY_UNAVAILABLE, at once while there is no connection and after 2 s when no answer comes.
 *         Whether the command was executed is unknown then.
 */
export type Ask = <Answer>(command: Command<Answer>) => Promise<Answer>

export function askOf(redis: RedisConnection): Ask {
  return async (command) => {
    try {
      if (redis.status !== 'ready') throw new Error(`the connection is ${redis.status}`)
      return await within(LIMIT_MS, command(redis))
    } catch (cause) {
      throw new GatewayError('DEPENDENCY_UNAVAILABLE', undefined, { cause })
    }
  }
}

/**
 * Reads the reply of a script as a list of texts and nulls.
 *
 * @throws Error when it is something else
 */
export function replyTexts(reply: unknown): readonly (string | null)[] {
  const isText = (item: unknown) => item === null || typeof item === 'string'
  if (!Array.isArray(reply) || !reply.every(isText))
    throw new Error('a script replied with something other than texts')
  return reply
}

/** @throws Error when there is no text */
export function replyText(text: string | null | undefined): string {
  if (typeof text !== 'string') throw new Error('a script left out a text')
  return text
}

/** Reads a whole number; nothing is zero. @throws Error for any other text, and for numbers that are not exact */
export function replyInteger(text: string | null | undefined): number {
  const integer = Number(text ?? 0)
  if (!Number.isSafeInteger(integer) || text === '')
    throw new Error('a script replied with a text that is not a whole number')
  return integer
}

/** Fields and values in turn, as Redis lists a hash. */
export function replyPairs(reply: unknown): [string, string][] {
  const texts = replyTexts(reply)
  return Array.from({ length: texts.length / 2 }, (_, i) => [
    replyText(texts[2 * i]),
    replyText(texts[2 * i + 1]),
  ])
}

/**
 * Reads a reply of a number and records. A record that cannot be read is left out: it must
 * not keep the others from whoever asked. A job that was taken up so is left to its lease, until it fails.
 */
export function replyList<Item>(reply: unknown, itemOf: (item: unknown) => Item): [number, Item[]] {
  if (!Array.isArray(reply) || !Number.isSafeInteger(reply[0]))
    throw new Error('a script did not reply with a list')
  const [head, ...items] = reply as [number, ...unknown[]]
  const readable = items.flatMap((item) => {
    try {
      return [itemOf(item)]
    } catch {
      return []
    }
  })
  return [head, readable]
}

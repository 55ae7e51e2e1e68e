import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { RedisConnection } from './connect.ts'

export interface ScriptShape<Key extends string, Arg extends string, Reply> {
  /** Names of the Redis keys, in the order of the file's `KEYS` line. */
  readonly keys: readonly Key[]
  /** Names of the arguments, in the order of the file's `ARGV` line. */
  readonly args: readonly Arg[]
  /** Another file of `scripts/`, with functions that this one calls: it runs in front of it. */
  readonly steps?: string
  /** Makes the typed answer out of what Redis replied. */
  readonly reply: (reply: unknown) => Reply
}

/** Runs a script with its inputs by name. Rejects with what Redis or the connection answers. */
export type Script<Name extends string, Reply> = (
  redis: RedisConnection,
  inputs: Readonly<Record<Name, string | number>>,
) => Promise<Reply>

/**
 * A Lua file of `scripts/` as a typed function. Inputs are named, so that no caller counts positions.
 *
 * @throws Error at import when the names differ from the header of the file, which is what its code goes by
 */
export function script<Key extends string, Arg extends string, Reply>(
  name: string,
  shape: ScriptShape<Key, Arg, Reply>,
): Script<Key | Arg, Reply> {
  const own = readLua(name)
  compareHeader(name, own, 'KEYS', shape.keys)
  compareHeader(name, own, 'ARGV', shape.args)
  const lua = shape.steps === undefined ? own : readLua(shape.steps) + own
  const sha = createHash('sha1').update(lua).digest('hex')
  const order: readonly (Key | Arg)[] = [...shape.keys, ...shape.args]

  return async (redis, inputs) => {
    const values = order.map((input) => inputs[input])
    try {
      return shape.reply(await redis.evalsha(sha, shape.keys.length, ...values))
    } catch (error) {
      // The server has not run it yet, or forgot it in a restart: nothing was executed, so sending it whole is safe.
      if (!(error instanceof Error) || !error.message.startsWith('NOSCRIPT')) throw error
      return shape.reply(await redis.eval(lua, shape.keys.length, ...values))
    }
  }
}

function readLua(name: string): string {
  return readFileSync(new URL(`./scripts/${name}.lua`, import.meta.url), 'utf8')
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

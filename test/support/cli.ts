import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { childEnvironment } from './child-environment.ts'

export const CLI = fileURLToPath(new URL('../../src/cli.ts', import.meta.url))

export interface Run {
  readonly input?: string
  readonly env?: Readonly<Record<string, string>>
  readonly cwd?: string
}

/** Runs the command to its end. */
export async function larkway(args: readonly string[], { input = '', env = {}, cwd }: Run = {}) {
  const child = spawn(process.execPath, [CLI, ...args], {
    env: childEnvironment(env),
    ...(cwd === undefined ? {} : { cwd }),
  })
  child.stdin.end(input)
  const [output, errors, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'exit'),
  ])
  return { code, output, errors }
}

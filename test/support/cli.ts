import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { runCommand } from '../../src/cli/commands.ts'
import { childEnvironment } from './child-environment.ts'
import { programOf } from './program.ts'

export interface Run {
  readonly input?: string
  readonly env?: Readonly<Record<string, string>>
  readonly cwd?: string
  /** The Node that runs a process of its own. */
  readonly node?: string
}

/** Runs the command to its end, in a process of its own. */
export async function larkway(args: readonly string[], run: Run = {}) {
  const { input = '', env = {}, cwd, node = process.execPath } = run
  const program = await programOf('cli.ts')
  const child = spawn(node, [...program.args, ...args], {
    env: childEnvironment({ ...program.env, ...env }),
    ...(cwd === undefined ? {} : { cwd }),
  })
  // A command that reads no input may be over before it is written.
  child.stdin.on('error', () => {}).end(input)
  const [output, errors, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'exit'),
  ])
  return { code, output, errors }
}

let last: Promise<unknown> = Promise.resolve()

/**
 * Runs the command to its end in the process of the test, which is much cheaper. One at a time, as the working folder
 * is the process's. What is proved of the process itself (that it ends, its output, its signals) needs `larkway`.
 */
export function runInProcess(
  args: readonly string[],
  { input = '', env = {}, cwd = process.cwd() }: Run = {},
) {
  const run = last.then(async () => {
    const output: string[] = []
    const errors: string[] = []
    const home = process.cwd()
    process.chdir(cwd)
    try {
      const code = await runCommand(args, {
        env: childEnvironment(env),
        print: (text) => void output.push(text),
        complain: (sentence) => void errors.push(`larkway: ${sentence}\n`),
        input: Readable.from([input]),
      })
      return { code, output: output.join(''), errors: errors.join('') }
    } finally {
      process.chdir(home)
    }
  })
  last = run.catch(() => undefined)
  return run
}

/** What `larkway check` has written, but for its last warning, which begins 90 days after the facts were looked up. */
export function withoutAge(output: string): string {
  return output.replace(/\nWarning: the facts of models are \d+ days old \(.*\n$/, '')
}

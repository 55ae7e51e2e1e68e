import { parse, UsageError } from './cli/arguments.ts'
import { runCommand } from './cli/commands.ts'
import { onWarning } from './contracts/warnings.ts'
import { POOL_THREADS } from './gateway/outbound/host-lookup.ts'

process.env.UV_THREADPOOL_SIZE ??= POOL_THREADS

async function serve(args: string[]): Promise<number> {
  const { values } = parse(args, { processes: { type: 'string' } }, 0)
  // One process does without the modules that only several need: they would be a third of its start.
  if (values.processes === undefined && process.env.LARKWAY_PROCESSES === undefined) return running(serveOne)
  const { readCount, serveProcesses } = await import('./cli/processes.ts')
  const { readEnvironment } = await import('./gateway/node/config.ts')
  const asked = values.processes === undefined ? null : readCount(values.processes)
  return running(async () => {
    const count = asked ?? readEnvironment(process.env).LARKWAY_PROCESSES
    return count > 1 ? serveProcesses({ count, env: process.env, print, complain }) : serveOne()
  })
}

async function serveOne(): Promise<number> {
  const { serve } = await import('./main.ts')
  await serve(process.env)
  return 0
}

async function worker(args: string[]): Promise<number> {
  parse(args, {}, 0)
  return running(async () => {
    const { work } = await import('./main.ts')
    await work(process.env)
    return 0
  })
}

async function running(start: () => Promise<number>): Promise<number> {
  try {
    return await start()
  } catch (error) {
    complain(error instanceof Error ? error.message : String(error))
    // Handles opened before the failure would keep the process alive.
    process.exit(1)
  }
}

async function sandbox(args: string[]): Promise<number> {
  const { values } = parse(args, { host: { type: 'string' }, port: { type: 'string' } }, 0)
  const { host = '127.0.0.1', port = '0' } = values
  if (!/^\d{1,5}$/.test(port) || Number(port) > 65535) throw new UsageError('--port takes 0 to 65535')
  const { startSandbox } = await import('./sandbox/server.ts')
  const { url } = await startSandbox({ host, port: Number(port) })
  print(`sandbox listens on ${url}\n`)
  return 0
}

/** Commands that keep running when their log can no longer be written. */
const SERVING = ['serve', 'worker']

process.stdout.on('error', ({ code, message }: NodeJS.ErrnoException) => {
  if (SERVING.includes(process.argv[2] ?? '')) return
  // Whoever reads the output may have read enough, as `head` has.
  if (code === 'EPIPE') process.exit()
  complain(message)
  process.exit(1)
})
// There is no other place to say it.
process.stderr.on('error', () => {})

onWarning(({ message }) => complain(message))

function print(text: string): void {
  process.stdout.write(text)
}

function complain(sentence: string): void {
  process.stderr.write(`larkway: ${sentence}\n`)
}

const terminal = {
  env: process.env,
  print,
  complain,
  draw: process.stderr.isTTY ? (text: string) => void process.stderr.write(text) : undefined,
  // Opened for the one command that reads it.
  get input() {
    return process.stdin
  },
  // Asked anew each time, as a terminal may be resized.
  get columns() {
    return process.stdout.isTTY ? process.stdout.columns : undefined
  },
}
process.exitCode = await runCommand(process.argv.slice(2), terminal, { serve, worker, sandbox })

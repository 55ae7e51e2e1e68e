import { compiled } from '../../scripts/compile.mjs'

/** How a program of the product is run. */
export interface Program {
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
}

const found = new Map<string, Promise<Program>>()

/**
 * Finds a program of the product as `npm start` runs it: compiled, which is what ships and half as dear to start. It
 * needs nothing of what tests load their own sources with.
 */
export function programOf(name: 'main.ts' | 'cli.ts'): Promise<Program> {
  let program = found.get(name)
  if (program === undefined) {
    program = compiled(name).then(({ file, flags, env }) => ({
      args: [...flags, file],
      env: file.endsWith('.js') ? { NODE_OPTIONS: '', ...env } : env,
    }))
    found.set(name, program)
  }
  return program
}

/** The server as several processes on one port. */
export async function processesProgram(count: number): Promise<Program> {
  const { args, env } = await programOf('cli.ts')
  return { args: [...args, 'serve', '--processes', String(count)], env }
}

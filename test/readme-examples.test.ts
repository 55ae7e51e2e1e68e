import { execFile, execFileSync } from 'node:child_process'
import { readFile, writeFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { larkway } from './support/cli.ts'
import { startLarkway } from './support/larkway.ts'

// What the README shows is typed in and compared with what it says comes back.

const ORIGIN = 'http://localhost:8080'
const README = await readFile(new URL('../README.md', import.meta.url), 'utf8')
const PACKAGES = fileURLToPath(new URL('../node_modules', import.meta.url))

interface Step {
  readonly command: string
  /** Empty where the README shows none. */
  readonly output: string
}

const blocksOf = (language: string): string[] =>
  [...README.matchAll(new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\`$`, 'gm'))].map(
    ([, text = '']) => text,
  )

/** A command goes on where its line ends with a backslash; what follows, up to the next one, is its output. */
function stepsOf(block: string): Step[] {
  return [...block.matchAll(/^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)/gm)].map(
    ([, command = '', output = '']) => ({
      command,
      output,
    }),
  )
}

/** `…` stands for anything; identifiers and times are others each time. */
function expected(output: string): RegExp {
  const source = output
    .trim()
    .replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&')
    .replaceAll('…', '[^]*?')
    .replaceAll(/\b(req|tj|qj|evt)_[0-9a-z]{26}\b/g, '$1_[0-9a-z]{26}')
    .replaceAll(
      /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\\\.\d{3}Z/g,
      '\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{3}Z',
    )
  return new RegExp(`^${source}$`)
}

/** Null where it is not installed. */
function versionOf(program: string, ...args: string[]): string | null {
  try {
    return execFileSync(program, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })
  } catch {
    return null
  }
}

const run = promisify(execFile)

const { url, key } = await startLarkway(t)
/** One folder for all: what an example writes, the next ones read. */
const cwd = t.testdir({ node_modules: t.fixture('symlink', PACKAGES) })
const env = { PATH: process.env.PATH ?? '', HOME: cwd, KEY: key }
const here = (text: string) => text.replaceAll(ORIGIN, url)

const blocks = blocksOf('console')
  .map(stepsOf)
  .filter((steps) => steps.some(({ command }) => command.includes(ORIGIN)))

t.test('the examples of the shell', { skip: versionOf('curl', '--version') === null }, async (t) => {
  t.ok(blocks.length >= 6, 'they were found')
  for (const steps of blocks) {
    let written = ''
    for (const { command, output } of steps.filter((step) => !step.command.startsWith('KEY='))) {
      // The job that a command asks for is the one that the command before made.
      const [job = ''] = /\btj_[0-9a-z]{26}\b/.exec(written) ?? []
      const { stdout } = await run(
        'bash',
        ['-c', `set -o pipefail; ${here(command).replaceAll('tj_…', job)}`],
        {
          cwd,
          env,
        },
      )
      written = stdout.replaceAll('\r', '')
      t.match(written.trim(), expected(output === '' ? '…' : output), command.split('\n')[0] ?? '')
    }
  }
})

/** What a program says that it prints: the comments behind its lines that print. */
const printsOf = (program: string) =>
  [...program.matchAll(/^\s*(?:console\.log|print|process\.stdout\.write)\(.*\) +(?:\/\/|#) (.*)$/gm)].map(
    ([, text]) => text,
  )

/** Programs that use a client library, pointed at the server of this test. */
async function programs(t: Test, language: string, file: string, program: string): Promise<void> {
  const sources = blocksOf(language).filter((block) => block.includes(ORIGIN))
  t.ok(sources.length > 0, 'there are some')
  for (const [index, source] of sources.entries()) {
    await writeFile(`${cwd}/${index}${file}`, here(source))
    const { stdout } = await run(program, [`${index}${file}`], { cwd, env })
    t.same(stdout.trim().split('\n'), printsOf(source), `${language} ${index}`)
  }
}

t.test('another answer than the one that is shown is found', async (t) => {
  const shown = expected('{"id":"req_01m7vpxmwhcxyhwv0c3a668m1h","at":"2026-11-20T09:00:00.000Z",…,"n":1}')
  t.match('{"id":"req_01m7w411esrxhwgspkc84atf9v","at":"2027-01-01T00:00:00.123Z","x":2,"n":1}', shown)
  for (const other of ['{"id":"req_1","at":"2027-01-01T00:00:00.123Z","n":1}', '{"n":1}', ''])
    t.notMatch(other, shown)
})

t.test('the examples in JavaScript', (t) => programs(t, 'js', '.mjs', process.execPath))

const python = versionOf('python3', '-c', 'import openai')
t.test('the examples in Python', { skip: python === null && 'the openai package is not installed' }, (t) =>
  programs(t, 'python', '.py', 'python3'),
)

t.test('the configuration to move with', async (t) => {
  const moving = README.split('\n## Moving from OpenAI\n')[1]?.split('\n## ')[0] ?? ''
  const [, yaml = ''] = /```yaml\n([\s\S]*?)```/.exec(moving) ?? []
  await writeFile(`${cwd}/larkway.yaml`, yaml.replace('"…"', `"${'0'.repeat(64)}"`))
  const { code, output, errors } = await larkway(['check'], { cwd, env: { OPENAI_API_KEY: 'sk-1' } })
  t.equal(code, 0, output + errors)
})

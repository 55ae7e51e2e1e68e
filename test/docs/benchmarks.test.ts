import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { readResults } from '../../bench/harness/result.ts'
import { reportFiles } from '../../bench/report.ts'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const read = (path: string) => readFileSync(ROOT + path, 'utf8')

/** What the README compares. */
const COMPARED = ['chat', 'multipart', 'slow-provider']
/** So many commits may be between the README's figures and its reader. */
const COMMITS_MAX = 100

const results = readResults()
const readme = read('README.md')
const files = reportFiles(results, readme)

t.test('the page, its charts and the summary are what `node bench/report.ts` writes', async (t) => {
  for (const [path, content] of files)
    t.equal(existsSync(ROOT + path) ? read(path) : null, content, `${path}: run node bench/report.ts`)
  const charts = readdirSync(`${ROOT}docs/charts`).map((name) => `docs/charts/${name}`)
  t.same(
    charts.filter((path) => !files.has(path)),
    [],
    'no chart is left over',
  )
})

t.test(
  'every result is shown, and says at the top of the page and beside it whose code it is of',
  async (t) => {
    const page = files.get('docs/benchmarks.md') ?? ''
    const [head = ''] = page.split('\n## ')
    for (const { title, commit, at } of results) {
      const section = page.split(`\n## ${title}\n`)[1]?.split('\n## ')[0] ?? ''
      t.match(section, `Measured at commit \`${commit}\` of ${at.slice(0, 10)}, not at any later one.`, title)
      const line = head.split('\n').find((one) => one.startsWith(`- [${title}]`))
      t.ok(line?.endsWith(`commit \`${commit}\` of ${at.slice(0, 10)}`), `${title}: ${line}`)
    }
  },
)

t.test('another result is another page, and a missing one is no page', async (t) => {
  const changed = results.map((result) =>
    COMPARED.includes(result.name)
      ? {
          ...result,
          commit: '123456789abc',
          rows: result.rows.map(({ runs, ...row }) => ({
            ...row,
            peakRssMib: 4321,
            runs: runs.map((run) => ({ ...run, peakRssMib: 4321 })),
          })),
        }
      : result,
  )
  const other = reportFiles(changed, readme)
  for (const path of ['README.md', 'docs/benchmarks.md', 'docs/charts/summary.svg']) {
    t.match(other.get(path), '4321 MiB', path)
    t.notMatch(files.get(path), '4321 MiB', path)
  }
  t.match(other.get('README.md'), 'commit `123456789abc`')
  const mixed = results.map((one) => (one.name === 'chat' ? { ...one, commit: '123456789abc' } : one))
  t.throws(() => reportFiles(mixed, readme), { message: /^multipart\.json is of / }, 'one commit')
  const without = results.map((one) => ({
    ...one,
    rows: one.rows.filter(({ candidate }) => candidate !== 'rolter'),
  }))
  t.throws(() => reportFiles(without, readme), { message: 'chat.json lacks rolter under 64 connections' })
  t.throws(() => reportFiles(results.slice(1), readme), { message: /^bench\/results lacks / })
  t.throws(() => reportFiles(results, '# Larkway'), { message: /^README.md lacks / })
})

t.test('the figures of the README are of recent code', async (t) => {
  const { commit } = results.find(({ name }) => name === 'chat')!
  const git = spawnSync('git', ['rev-list', '--count', `${commit}..HEAD`], { cwd: ROOT, encoding: 'utf8' })
  if (git.status !== 0) return t.pass('this clone lacks the history', { skip: true })
  const since = Number(git.stdout)
  t.ok(since <= COMMITS_MAX, `${since} commits since ${commit}: measure again, as bench/README.md says`)
})

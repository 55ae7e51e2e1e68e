import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { posix } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { test } from 'tap'
import { LAYERS, roomOf } from './support/layers.ts'
import type { SourceText } from './support/source-text.ts'
import { classesIn, commentsIn, functionsIn, importsIn, lineOf, readSource } from './support/source-text.ts'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const FUNCTION_LINES_MAX = 70
const LINE_LENGTH_MAX = 120
/** A shorter file with one importer, in its own folder, is part of that importer. */
const SLIVER_LINES = 40

/** The top is one program, the bottom one vocabulary: parts may name one another. */
const ONE_PLACE = [0, LAYERS.length - 1]

/** A function whose name stands in more files is named with its noun, unless it is a role that each provider fills. */
const NAMESAKES_MAX = 3
const ROLES = new Set(['handshake', 'hintOf', 'liveAudioFor', 'readTranscript', 'readWord', 'unsupported'])

/** The only file that reads the machine's clock and sets its timers; entry points may measure themselves. */
const CLOCK = 'src/contracts/time.ts'

const CLASS_LINES_MAX = 250
const CLASS_FIELDS_MAX = 15

/** The only readers of the environment. */
const PROGRAMS = ['src/main.ts', 'src/cli.ts']
/** The last one is evaluated before `main.ts`, which hands the environment to all others. */
const READS_ENVIRONMENT = [...PROGRAMS, 'src/gateway/node/booting.ts']

/** The only one that makes clients of Redis: each has a listener for its errors, or their stacks go past the log. */
const CONNECTS_TO_REDIS = 'src/gateway/state/redis/connect.ts'

/**
 * Who writes paths of the interface, or such as look like them, beside src/gateway/api: facts about an endpoint come
 * out of its value, so that a new one touches no list.
 */
const WRITES_PATHS: Readonly<Record<string, string>> = {
  'src/gateway/api/': 'each endpoint says its own',
  'src/gateway/providers/': 'paths of the providers',
  'src/sandbox/': 'the paths of the vendors that it imitates',
  'src/console/page/': 'the page is a client: its playground and its first call send requests',
  'src/console/server/endpoint.ts':
    'the prefix of the management API, whose endpoints are those of the console',
  'src/cli/listen.ts': 'the command is a client',
  'src/cli/transcribe.ts': 'the command is a client',
  'src/cli/upload.ts': 'what it uploads with',
}

/** Errors that name a field, in the one style of all doors. */
const REFUSALS = 'src/gateway/edge/refusals.ts'

/** What browsers run; its folder is served as it is. */
const PAGE = 'src/console/page'
/** Made beside the compiled program; the sources have none. */
const PAGE_PACK = 'src/console/server/page.pack'
const PAGE_ENTRY_POINTS = [`${PAGE}/main.ts`, `${PAGE}/early.ts`]

/** What nothing imports because it is run; everything else in src must be reached from here. */
const ENTRY_POINTS = [...PROGRAMS, ...PAGE_ENTRY_POINTS]

/** Openings of a comment by a relative or a genitive, which leave the reader to find out what the sentence is about. */
const OPENING = /^(?:What(?:ever)?|Whose|Whom|Of|Those (?:who|that|which|of|whose)|Who|Nobody|Somebody)\b/
/** Words that have a plainer one: no one or a passive, a caller or an operator, the default, continues, after. */
const WORDS = /\b(?:nobody|somebody|unless (?:it is )?said|goes on|stands? in|behind (?:it|them))\b/i

/**
 * Lines of TypeScript and Lua that the benches, the tests and each room of the gateway may have; budgets of buildings
 * stand in their READMEs. Who needs more takes them from somewhere, or raises the budget in a commit that says why.
 */
const BUDGETS: Readonly<Record<string, number>> = {
  bench: 8_540,
  'gateway/admin': 2_600,
  'gateway/api': 17_110,
  'gateway/call': 855,
  'gateway/call/attempt': 4_140,
  'gateway/call/compare': 645,
  'gateway/call/context': 1_320,
  'gateway/call/facts': 1_130,
  'gateway/call/money': 1_150,
  'gateway/call/select': 2_490,
  'gateway/catalog': 4_700,
  'gateway/edge': 6_620,
  'gateway/jobs': 1_795,
  'gateway/live': 4_720,
  'gateway/long': 910,
  'gateway/media': 5_250,
  'gateway/node': 2_205,
  'gateway/observe/alerts': 1_000,
  'gateway/observe/metrics': 1_690,
  'gateway/observe/recorder': 1_105,
  'gateway/observe/tracing': 685,
  'gateway/outbound': 3_395,
  'gateway/providers': 11_130,
  'gateway/state': 12_885,
  'gateway/storage': 6_245,
  'gateway/webhooks': 615,
  'gateway/workers': 450,
  test: 143_850,
  'test/support': 15_260,
}

/** Slivers that stay, and why. */
const SLIVERS_WITH_REASON: Readonly<Record<string, string>> = {}
type File = { path: string; raw: string } & SourceText
type Check = (file: File) => string[]

const layerOf = (room: string) => LAYERS.findIndex((names) => names.includes(room))
const isInside = (path: string, ...folders: string[]) =>
  folders.some((folder) => path.startsWith(`${folder}/`))
const resolve = (from: string, target: string) => posix.join(posix.dirname(from), target)

/** The faults of a pattern in the code of a file. */
const pattern =
  (banned: RegExp, instead: string): Check =>
  ({ path, code }) =>
    [...code.matchAll(banned)].map(({ index }) => `${path}:${lineOf(code, index)} ${instead}`)

const only =
  (applies: (path: string) => boolean, check: Check): Check =>
  (file) =>
    applies(file.path) ? check(file) : []

/** Comments that do not say what they are about at first. */
function oddComments(file: File): string[] {
  return commentsIn(file).flatMap(({ text, line }) => {
    const found = OPENING.exec(text) ?? WORDS.exec(text)
    return found ? [`${file.path}:${line} "${found[0]}": say it subject first, as to a colleague`] : []
  })
}

/** Whether a package names the file among its exports; true for files of this repository and parts of Node. */
function isPublished(target: string): boolean {
  if (target.includes('node_modules')) return false
  const [, name, file] = /^((?:@[^/]+\/)?[^./:@][^/:]*)\/(.+)$/.exec(target) ?? []
  if (name === undefined) return true
  const path = `${ROOT}node_modules/${name}/package.json`
  if (!existsSync(path)) return false
  const { exports = {} } = JSON.parse(readFileSync(path, 'utf8')) as { exports?: object }
  return `./${file}` in exports
}

const isSource = (path: string) => isInside(path, 'src')
const isProgram = (path: string) => isInside(path, 'src', 'bench', 'scripts')

const CHECKS: Record<string, Check> = {
  layers: only(isSource, (file) =>
    importsIn(file)
      .filter(({ target }) => target.startsWith('.'))
      .flatMap(({ target, line }) => {
        const path = resolve(file.path, target)
        if (path === 'package.json') return []
        if (!isSource(path)) return [`${file.path}:${line} imports ${path}, outside src`]
        const [from, to] = [roomOf(file.path), roomOf(path)]
        const [above, below] = [layerOf(from), layerOf(to)]
        if (above < 0 || below < 0) return [`${file.path}:${line} ${above < 0 ? from : to} is in no layer`]
        const allowed = from === to || above < below || (above === below && ONE_PLACE.includes(above))
        return allowed ? [] : [`${file.path}:${line} ${from} may not import ${to}`]
      }),
  ),
  any: pattern(/(?:[:<|&,(=[]|\b(?:as|is|extends|satisfies))\s*any\b(?!\s*[:(?.=])/g, 'any: say what it is'),
  environment: only(
    (path) => isSource(path) && !READS_ENVIRONMENT.includes(path),
    pattern(
      /\bprocess\s*(?:\?\.|\.|\[)\s*env\b|\bimport\s*\{[^}]*\benv\b[^}]*\}\s*from\s/g,
      'process.env: pass it in',
    ),
  ),
  console: only(isSource, pattern(/\bconsole\s*(?:\?\.|\.|\[)/g, 'console: log with pino')),
  'commands without HTTP': only(
    (path) => isInside(path, 'src/gateway/admin', 'src/cli'),
    (file) =>
      importsIn(file)
        .map(({ target, line }) => ({ path: resolve(file.path, target), line }))
        .filter(
          ({ path }) =>
            isInside(path, 'src/gateway/api', 'src/console', 'src/gateway/edge') && path !== REFUSALS,
        )
        .map(({ path, line }) => `${file.path}:${line} ${path}: commands know nothing of HTTP`),
  ),
  recorder: only(
    (path) => isSource(path) && !isInside(path, 'src/gateway/node', 'src/gateway/observe/recorder'),
    (file) =>
      importsIn(file)
        .filter(({ target }) => isInside(resolve(file.path, target), 'src/gateway/observe/recorder'))
        .map(
          ({ line }) =>
            `${file.path}:${line} src/gateway/observe/recorder: it is told through contracts/recorder.ts`,
        ),
  ),
  'redis clients': only(
    (path) => isSource(path) && path !== CONNECTS_TO_REDIS,
    (file) => [
      ...importsIn(file)
        .filter(({ target }) => target === 'ioredis')
        .map(({ line }) => `${file.path}:${line} ioredis: ${CONNECTS_TO_REDIS} makes connections`),
      ...pattern(
        /\.duplicate\s*\(/g,
        `a duplicate has no listeners: ${CONNECTS_TO_REDIS} makes connections`,
      )(file),
    ],
  ),
  'paths of endpoints': only(
    (path) => isSource(path) && !Object.keys(WRITES_PATHS).some((prefix) => path.startsWith(prefix)),
    // A path as a value begins its quotes or follows what `${}` holds; a sentence about one has words before it.
    ({ path, text, code }) =>
      [...text.matchAll(/['"`}](?:[A-Z]+ )?(?:\/[\w.-]+)*\/v\d+\//g)]
        .filter(({ index }) => code[index] === text[index])
        .map(({ index }) => `${path}:${lineOf(text, index)} a path: take it from src/gateway/api/table.ts`),
  ),
  'default exports': pattern(/\bexport\s+default\b|\bas\s+default\b/g, 'default export: give it a name'),
  barrels: (file) => {
    const rest = file.code.replace(/\bexport\s+(?:type\s+)?\{[^}]*\}\s*from\s*(['"])\s*\1/g, '')
    const onlyPassesOn = rest !== file.code && rest.trim() === ''
    const stars = pattern(/\bexport\s+(?:type\s+)?\*/g, 'export *: import from where it is made')(file)
    return onlyPassesOn ? [`${file.path} only re-exports: import from where it is made`, ...stars] : stars
  },
  'length of functions': only(isProgram, ({ path, code }) =>
    functionsIn(code)
      .filter(({ lines }) => lines > FUNCTION_LINES_MAX)
      .map(({ line, lines }) => `${path}:${line} function of ${lines} lines, over ${FUNCTION_LINES_MAX}`),
  ),
  clock: only(
    (path) => isSource(path) && !isInside(path, PAGE) && ![CLOCK, ...READS_ENVIRONMENT].includes(path),
    (file) => [
      ...pattern(
        new RegExp(
          [
            String.raw`\bperformance\s*\.\s*now\b|\bDate\s*\.\s*now\b|\bnew\s+Date\(\s*\)`,
            String.raw`\bAbortSignal\s*\.\s*timeout\b|(?<![.\w])set(?:Timeout|Interval)\s*\(`,
          ].join('|'),
          'g',
        ),
        `the machine's clock: take the Clock of ${CLOCK} with the dependencies`,
      )(file),
      ...importsIn(file)
        .filter(({ target }) => /^(?:node:)?timers\b/.test(target))
        .map(({ line }) => `${file.path}:${line} timers: ${CLOCK} has sleep()`),
    ],
  ),
  'size of classes': only(isSource, ({ path, code }) =>
    classesIn(code)
      .filter(({ lines, fields }) => lines > CLASS_LINES_MAX || fields > CLASS_FIELDS_MAX)
      .map(({ line, name, lines, fields }) => `${path}:${line} ${name} has ${lines} lines, ${fields} fields`),
  ),
  'plain English': only(isProgram, oddComments),
  'names of types': only(
    isSource,
    pattern(
      /\b(?:interface|type|class)\s+\w*(?:Parts|Desk|Asking|Told|Elsewhere)\b/g,
      'a type is named after what it is: Dependencies, Options, a noun of the field',
    ),
  ),
  'words for names': only(
    isSource,
    pattern(/#?\b(?:told|elsewhere|desk)\b/g, 'a name is a noun of the field, or the verb of what is done'),
  ),
  'private files of packages': only(isSource, (file) =>
    importsIn(file)
      .filter(({ target }) => !isPublished(target))
      .map(({ target, line }) => `${file.path}:${line} ${target}: its package does not export it`),
  ),
  'length of lines': ({ path, raw }) =>
    raw
      .split('\n')
      .flatMap((line, index) =>
        line.length > LINE_LENGTH_MAX ? [`${path}:${index + 1} is ${line.length} columns wide`] : [],
      ),
}

/** Names of functions that stand in too many files of src to say by themselves what they are about. */
function crowdedNames(files: readonly File[]): string[] {
  const places = new Map<string, Set<string>>()
  for (const { path, code } of files.filter((file) => isSource(file.path)))
    for (const [, name] of code.matchAll(/^(?:export )?(?:async )?function\*? (\w+)/gm))
      places.set(name!, (places.get(name!) ?? new Set()).add(path))
  return [...places]
    .filter(([name, paths]) => paths.size > NAMESAKES_MAX && !ROLES.has(name))
    .map(([name, paths]) => `${name} stands in ${paths.size} files: ${[...paths].join(', ')}`)
}

/** Files of src that no entry point leads to, by imports or, for data such as Lua scripts, by being named. */
function deadFiles(files: readonly File[]): string[] {
  const byPath = new Map(files.map((file) => [file.path, file]))
  const reached = new Set<string>()
  const queue = [...ENTRY_POINTS]
  for (let path = queue.pop(); path !== undefined; path = queue.pop()) {
    const file = byPath.get(path)
    if (!file || reached.has(path)) continue
    reached.add(path)
    for (const { target } of importsIn(file)) if (target.startsWith('.')) queue.push(resolve(path, target))
  }
  const strings = files.filter((file) => reached.has(file.path)).map((file) => file.text)
  const isNamed = (path: string) => {
    // Style sheets are found by their folder, and a `tsconfig.json` by the compiler.
    if (isInside(path, PAGE) && /\.css$|\/tsconfig\.json$/.test(path)) return true
    const name = posix.parse(path).name
    return strings.some((text) => new RegExp(`['"\`/]${name}(?:\\.\\w+)?['"\`]`).test(text))
  }
  return files
    .filter(
      ({ path }) => isSource(path) && !reached.has(path) && (/\.[mc]?[jt]s$/.test(path) || !isNamed(path)),
    )
    .map(({ path }) => `${path} is reached from no entry point`)
}

type Graph = ReadonlyMap<string, ReadonlySet<string>>

/** Each file that `isIn` takes and those of them that it imports, for types too. */
function importGraph(files: readonly File[], isIn = isSource): Graph {
  const paths = new Set(files.map(({ path }) => path))
  const importsOf = (file: File) =>
    importsIn(file)
      .filter(({ target, isUrl }) => target.startsWith('.') && !isUrl)
      .map(({ target }) => resolve(file.path, target))
      .filter((path) => paths.has(path))
  return new Map(files.filter(({ path }) => isIn(path)).map((file) => [file.path, new Set(importsOf(file))]))
}

/** Files that a program names by its own URL, and that are not there: a compiler does not look at them. */
function absentFiles(files: readonly File[], isThere: (path: string) => boolean): string[] {
  const form = /\bnew URL\(\s*(['"`])([^'"`$:]+)\1,\s*import\.meta\.url\b/g
  return files.flatMap(({ path, text, code }) =>
    [...text.matchAll(form)]
      .filter((match) => code.startsWith('new URL', match.index))
      .map((match) => posix.join(posix.dirname(path), match[2]!))
      .filter((named) => !isThere(named))
      .map((named) => `${path} names ${named}, which is not there`),
  )
}

/** Files that import themselves by way of others, each with the shortest way round. */
function importCircles(graph: Graph): Map<string, string> {
  const circles = new Map<string, string>()
  for (const start of graph.keys()) {
    const cameFrom = new Map<string, string>()
    const queue = [start]
    for (let path = queue.shift(); path !== undefined && !cameFrom.has(start); path = queue.shift()) {
      for (const target of graph.get(path) ?? []) {
        if (cameFrom.has(target)) continue
        cameFrom.set(target, path)
        queue.push(target)
      }
    }
    let at = cameFrom.get(start)
    if (at === undefined) continue
    const way = [start]
    for (; at !== start; at = cameFrom.get(at!)) way.unshift(at!)
    circles.set(start, [start, ...way].join(' -> '))
  }
  return circles
}

/** Files under 40 lines whose one importer stands beside them: they belong to it. */
function slivers(files: readonly File[]): Map<string, string> {
  const importers = new Map<string, string[]>()
  for (const [from, targets] of importGraph(files))
    for (const target of targets) importers.set(target, [...(importers.get(target) ?? []), from])
  const found = new Map<string, string>()
  for (const { path, raw } of files) {
    const lines = raw.split('\n').length - 1
    const [importer, another] = importers.get(path) ?? []
    if (importer === undefined || another !== undefined || lines >= SLIVER_LINES) continue
    if (posix.dirname(importer) !== posix.dirname(path)) continue
    found.set(path, `${path} has ${lines} lines and one importer: make it part of ${importer}`)
  }
  return found
}

/** Servers of vendors, which stay together however many rooms use them. */
const VENDOR_SERVERS = /^test\/support\/(?:upstream\/|live-)/

/** Files of `test/support` that tests of one room alone use, by way of others too: they belong beside those. */
function roomSupport(files: readonly File[]): string[] {
  const users = new Map<string, string[]>()
  for (const file of files)
    for (const { target } of importsIn(file)) {
      const path = resolve(file.path, target)
      users.set(path, [...(users.get(path) ?? []), file.path])
    }
  const roomsOf = (path: string, seen = new Set<string>()): string[] =>
    (users.get(path) ?? []).flatMap((user) => {
      if (seen.has(user)) return []
      seen.add(user)
      return user.startsWith('test/support/') ? roomsOf(user, seen) : [roomOf(user)]
    })
  return files.flatMap(({ path }) => {
    if (!path.startsWith('test/support/') || VENDOR_SERVERS.test(path)) return []
    const [room, another] = new Set(roomsOf(path))
    return room === undefined || another !== undefined || room.endsWith('.test')
      ? []
      : [`${path}: only for ${room}`]
  })
}

/** Offenders that are not listed, and lines of the list that name no offender: a list of debts only shrinks. */
function beyond(found: ReadonlyMap<string, string>, allowed: readonly string[]): string[] {
  return [
    ...[...found].filter(([path]) => !allowed.includes(path)).map(([, fault]) => fault),
    ...allowed.filter((path) => !found.has(path)).map((path) => `${path} is clean: strike it from the list`),
  ]
}

/** Rooms without a budget, and those that have more lines than theirs. */
function overBudget(files: readonly File[]): string[] {
  const lines = new Map<string, number>()
  for (const { path, raw } of files) {
    if (!/^(?:src\/gateway|bench|test)\/.*\.(?:ts|lua)$/.test(path)) continue
    const room = /^(?:bench|test\/support|test)(?=\/)/.exec(path)?.[0] ?? roomOf(path)
    lines.set(room, (lines.get(room) ?? 0) + raw.split('\n').length - 1)
  }
  return [...lines]
    .filter(([room, count]) => count > (BUDGETS[room] ?? 0))
    .map(([room, count]) => `${room} has ${count} lines, and a budget of ${BUDGETS[room] ?? 0}`)
}

/** Hosts of package registries and of this machine's mirrors; put together, or this file would name them. */
function registryHosts(): string[] {
  const hosts = [['registry', 'npmjs', 'org'].join('.'), ['deb', 'debian', 'org'].join('.')]
  const settings = [process.env.npm_config_registry ?? '']
  for (const folder of ['/etc/apt', '/etc/apt/sources.list.d']) {
    const lists = existsSync(folder)
      ? readdirSync(folder).filter((name) => /sources(?:\.list)?$|\.list$/.test(name))
      : []
    for (const name of lists.filter((list) => list !== 'sources.list.d'))
      settings.push(readFileSync(`${folder}/${name}`, 'utf8'))
  }
  const found = settings.join('\n').matchAll(/^[^#\n]*?https?:\/\/([^\s/:]+)/gm)
  return [...new Set([...hosts, ...[...found].map((match) => match[1]!)])]
}

/** What belongs to one machine or to how this was made, and not into the repository. */
function foreignWords(path: string, raw: string, hosts: readonly string[]): string[] {
  const faults = hosts
    .filter((host) => raw.includes(host))
    .map((host) => `${path} names the registry host ${host}`)
  for (const match of raw.matchAll(/(?<![\w.])\/(?:work|farm|root)\/|\.\.\/shared\/|\/tmp\/n\d/g))
    faults.push(`${path}:${lineOf(raw, match.index)} names a path of one machine: ${match[0]}`)
  return faults
}

/** Tracked files, and those that are about to be. */
const tracked = execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], {
  cwd: ROOT,
})
  .toString()
  .split('\0')
  .filter((path) => path !== '' && existsSync(ROOT + path))

const files: File[] = tracked
  .filter(
    (path) =>
      /\.(?:m?[jt]s|lua|json|html|css|svg|sql)$/.test(path) &&
      isInside(path, 'src', 'test', 'bench', 'scripts'),
  )
  .map((path) => ({ path, raw: readFileSync(ROOT + path, 'utf8') }))
  .map((file) => ({
    ...file,
    ...(/\.m?[jt]s$/.test(file.path) ? readSource(file.raw) : { text: file.raw, code: file.raw }),
  }))

const programs = files.filter(({ path }) => /\.m?[jt]s$/.test(path))

test('the repository is tidy', async (t) => {
  t.ok(programs.length > 50, 'the files were found')
  for (const [name, check] of Object.entries(CHECKS)) t.same(programs.flatMap(check), [], name)
  t.same(deadFiles(files), [], 'dead files')
  t.same([...importCircles(importGraph(files, isProgram)).values()], [], 'import circles')
  t.same(beyond(slivers(files), Object.keys(SLIVERS_WITH_REASON)), [], 'slivers')
  t.same(roomSupport(files), [], 'helpers of one room')
  const isThere = (path: string) => path === PAGE_PACK || existsSync(ROOT + path)
  t.same(absentFiles(programs, isThere), [], 'files named by a URL')
  const longest: object = JSON.parse(readFileSync(`${ROOT}scripts/longest-tests.json`, 'utf8'))
  const gone = Object.keys(longest).filter((path) => !existsSync(ROOT + path))
  t.same(gone, [], 'tests that take longest')
  t.same(crowdedNames(files), [], 'names of functions')
  t.same(overBudget(files), [], 'budgets of lines')
  const hosts = registryHosts()
  const texts = tracked.filter(
    (path) => !/\.(?:png|wav|mp3|mp4|m4a|webm|ogg|flac|opus|gif|ico|bin)$/.test(path),
  )
  t.same(
    texts.flatMap((path) => foreignWords(path, readFileSync(ROOT + path, 'utf8'), hosts)),
    [],
    'foreign words',
  )
})

// A check that cannot fail holds nothing: each is shown a fault, and something like it that is none.
const sample = (path: string, raw: string): File => ({ path, raw, ...readSource(raw) })
const long = (head: string, lines: number) => `${head}\n${'  x\n'.repeat(lines - 2)}}\n`

const BAD: Record<string, [path: string, source: string][]> = {
  layers: [
    ['src/gateway/storage/spool.ts', "import { run } from '../call/run.ts'"],
    ['src/gateway/state/x.ts', "import type { A } from '../storage/s3.ts'"],
    ['src/gateway/outbound/send.ts', "const a = await import('../media/wav.ts')"],
    ['src/helpers/x.ts', "import { a } from '../errors.ts'"],
    ['src/gateway/workers/pool.ts', "new Worker(new URL('../storage/task.ts', import.meta.url))"],
    ['src/contracts/errors.ts', "export { x } from '../scripts/install.mjs'"],
  ],
  any: [
    ['src/a.ts', 'function f(x: any) {}'],
    ['test/a.ts', 'const x = y as any'],
    ['src/a.ts', 'type A = Record<string, any>'],
    ['src/a.ts', `const a = \`\${(b as any).c}\``],
  ],
  environment: [
    ['src/gateway/call/a.ts', 'const x = process.env.PORT'],
    ['src/sandbox/a.ts', "import { env } from 'node:process'"],
  ],
  console: [['src/a.ts', 'console.log(1)']],
  recorder: [['src/gateway/jobs/a.ts', "import { BatchingRecorder } from '../observe/recorder/recorder.ts'"]],
  'commands without HTTP': [
    ['src/gateway/admin/keys.ts', "import { endpoint } from '../api/endpoint.ts'"],
    ['src/cli/jobs.ts', "import type { Exchange } from '../gateway/edge/exchange.ts'"],
  ],
  'redis clients': [
    ['src/gateway/state/redis/state.ts', "import { Redis } from 'ioredis'\nconst redis = new Redis(url)"],
    ['src/gateway/state/redis/jobs.ts', 'const listener = redis.duplicate()'],
  ],
  'paths of endpoints': [
    ['src/usage/ledger.ts', "const NO_CALLS = new Set(['/openai/v1/realtime/client_secrets'])"],
    ['src/gateway/observe/recorder/a.ts', "const SESSIONS = ['GET /v1/speech/stream']"],
    ['src/gateway/node/a.ts', 'const url = `${origin}/v1/speech`'],
    ['src/gateway/observe/metrics/a.ts', 'const path = "/assemblyai/v2/upload"'],
  ],
  'default exports': [
    ['src/a.ts', 'export default function f() {}'],
    ['bench/a.ts', 'export { a as default }'],
  ],
  barrels: [
    ['src/gateway/providers/index.ts', "export * from './openai.ts'"],
    [
      'src/gateway/state/index.ts',
      "// all of it\nexport { a } from './a.ts'\nexport type { B } from './b.ts'\n",
    ],
  ],
  'length of functions': [
    ['src/a.ts', long('export async function run(a: string): Promise<{ b: number }> {', 71)],
    ['src/a.ts', long('const run = async (a: string): Promise<void> => {', 71)],
    ['src/a.ts', `class A {\n${long('  handle(a: Map<string, () => void>) {', 71)}}`],
    ['scripts/a.mjs', `app.get('/', (request) => {\n${long('  if (x) {', 70)}})`],
  ],
  clock: [
    ['src/a.ts', 'const startedMs = performance.now()'],
    ['src/a.ts', 'const timer = setTimeout(run, 5)'],
    ['src/a.ts', 'const late = AbortSignal.timeout(5)'],
    ['src/a.ts', 'const at = new Date().toISOString() + Date.now()'],
    ['src/a.ts', "import { setTimeout as sleep } from 'node:timers/promises'"],
  ],
  'size of classes': [
    ['src/a.ts', long('export class Big extends Small<A> {', 251)],
    ['src/a.ts', `class Wide {\n${'  readonly #a: string\n'.repeat(8)}${'  b = 1\n'.repeat(8)}}\n`],
  ],
  'plain English': [
    ['src/a.ts', '/** What a caller gets. */'],
    ['src/a.ts', '// Of these the last counts.'],
    ['src/a.ts', '/**\n * Reads it.\n *\n * @returns whose key it is, which nobody knows\n */'],
    ['scripts/a.mjs', '/** Default: 3, unless said. */'],
  ],
  'names of types': [
    ['src/a.ts', 'export interface RunnerParts {'],
    ['src/a.ts', "type Told = 'yes' | 'no'"],
  ],
  'words for names': [['src/a.ts', 'const told = answers.map(({ value }) => value)']],
  'private files of packages': [
    ['src/usage/a.ts', "import { b } from 'pino/lib/tools.js'"],
    ['src/a.ts', "import * as b from '../node_modules/tcompare/dist/esm/index.js'"],
  ],
  'length of lines': [['README.ts', `// ${'x'.repeat(118)}`]],
}

const GOOD: Record<string, [path: string, source: string][]> = {
  layers: [
    [
      'src/gateway/call/run.ts',
      "import { A } from './select.ts'\nimport { s } from '../../contracts/state.ts'",
    ],
    ['src/cli.ts', "import { serve } from './main.ts'"],
    [
      'src/gateway/storage/a.ts',
      "// import { run } from '../call/run.ts'\nconst x = \"import '../call/run.ts'\"",
    ],
  ],
  any: [
    ['src/a.ts', "app.any('/*', f) // any: of them\nconst s = 'x: any'\nawait Promise.any(list)"],
    ['src/a.ts', `const r = /: any/\nconst u = \`\${a}: any\``],
  ],
  environment: [['src/main.ts', 'await serve(process.env)']],
  console: [['bench/run.ts', 'console.log(1)']],
  recorder: [
    ['src/gateway/node/a.ts', "import { BatchingRecorder } from '../observe/recorder/recorder.ts'"],
    ['src/gateway/jobs/a.ts', "import type { Recorder } from '../../contracts/recorder.ts'"],
  ],
  'commands without HTTP': [['src/gateway/admin/keys.ts', "import { invalid } from '../edge/refusals.ts'"]],
  'redis clients': [
    [CONNECTS_TO_REDIS, "import { Cluster, Redis } from 'ioredis'"],
    [
      'src/gateway/state/redis/state.ts',
      "import { redisConnector } from './connect.ts'\nconst s = 'ioredis'",
    ],
  ],
  'paths of endpoints': [
    ['src/gateway/api/native/me.ts', "const path = '/v1/me'"],
    ['src/gateway/catalog/file.ts', "const KEY = optional(Text, 'shown in GET /v1/me; its id')"],
    ['src/usage/ledger.ts', "/** '/v1/chat' */\nconst isCall = calls.has(text)"],
    ['src/console/server/api/log.ts', "word('such as `POST /v1/chat`')"],
  ],
  'default exports': [['src/a.ts', "import express from 'x'\nconst s = 'export default'"]],
  barrels: [['src/gateway/providers/index.ts', "export type { A } from './a.ts'\nexport const all = [a, b]"]],
  'length of functions': [
    ['src/a.ts', long('function run(a = /[)}/]/, b = "}") {', 70)],
    ['src/a.ts', long('const table: Record<string, string> = {', 90)],
    ['src/a.ts', long('export class Big extends Small<A> {', 90)],
    ['src/a.ts', long('export const SHAPE = Type.Object({', 90).replace(/\}\n$/, '})\n')],
  ],
  clock: [
    [CLOCK, 'const now = () => performance.now()'],
    [`${PAGE}/a.ts`, 'setTimeout(look, 5_000)'],
    ['src/a.ts', 'socket.setTimeout(0)\nconst at = new Date(clock.wallNow()) // performance.now()'],
  ],
  'size of classes': [['src/a.ts', long('export class Big extends Small<A> {', 250)]],
  'plain English': [
    ['src/a.ts', "/** The caller's answer. Of two the last counts. */\nconst s = 'What nobody knows'"],
    ['src/a.ts', '/**\n * Reads it.\n *\n * @returns the key, or null\n */'],
  ],
  'names of types': [
    ['src/a.ts', "import type { Parts } from 'x'\ninterface RunnerDependencies { readonly parts: Part[] }"],
  ],
  'words for names': [['src/a.ts', "// It is told.\nconst retold = 'told elsewhere'"]],
  'private files of packages': [
    [
      'src/a.ts',
      "import Value from 'typebox/value'\nimport pino from 'pino'\nimport { join } from 'node:path/posix'",
    ],
    ['test/a.ts', "import { b } from 'pino/lib/tools.js'"],
  ],
  'length of lines': [['src/a.ts', 'x'.repeat(120)]],
}

test('each check finds its fault and nothing else', async (t) => {
  for (const [name, check] of Object.entries(CHECKS)) {
    for (const [path, source] of BAD[name] ?? [])
      t.not(check(sample(path, source)).length, 0, `${name}: ${path} ${source}`)
    for (const [path, source] of GOOD[name] ?? [])
      t.same(check(sample(path, source)), [], `${name}: ${source}`)
    t.ok(BAD[name] && GOOD[name], `${name} has samples of both`)
  }
})

test('import circles and slivers are found', async (t) => {
  const own = "import type { A } from './a.ts'"
  const circle = [
    sample('src/gateway/jobs/a.ts', "import { b } from './b.ts'\nexport { d } from './d.ts'"),
    sample('src/gateway/jobs/b.ts', "const c = await import('../call/c.ts')"),
    sample('src/gateway/call/c.ts', "import type { A } from '../jobs/a.ts'"),
    sample(
      'src/gateway/jobs/d.ts',
      "// import { A } from './a.ts'\nnew Worker(new URL('./a.ts', import.meta.url))",
    ),
  ]
  t.same(
    [...importCircles(importGraph(circle))],
    [
      [
        'src/gateway/jobs/a.ts',
        'src/gateway/jobs/a.ts -> src/gateway/jobs/b.ts -> src/gateway/call/c.ts -> src/gateway/jobs/a.ts',
      ],
      [
        'src/gateway/jobs/b.ts',
        'src/gateway/jobs/b.ts -> src/gateway/call/c.ts -> src/gateway/jobs/a.ts -> src/gateway/jobs/b.ts',
      ],
      [
        'src/gateway/call/c.ts',
        'src/gateway/call/c.ts -> src/gateway/jobs/a.ts -> src/gateway/jobs/b.ts -> src/gateway/call/c.ts',
      ],
    ],
  )
  const helper = sample('test/support/a.ts', 'x')
  const shared = sample('test/support/b.ts', "import './a.ts'")
  const user = sample('test/gateway/call/a.test.ts', "import '../../support/b.ts'")
  const other = sample('test/usage/a.test.ts', "new URL('../support/a.ts', import.meta.url)")
  t.same(roomSupport([helper, shared, user]), [
    'test/support/a.ts: only for gateway/call',
    'test/support/b.ts: only for gateway/call',
  ])
  t.same(roomSupport([helper, shared, user, other]), ['test/support/b.ts: only for gateway/call'])
  const named = (code: string) =>
    absentFiles([sample('test/usage/a.ts', code)], (path) => path === 'test/usage/b.ts')
  t.same(
    named("new URL('b.ts', import.meta.url)\nnew URL('./b.ts', import.meta.url)\nnew URL('/c', base)"),
    [],
  )
  t.same(named("new URL('../b.ts', import.meta.url)\n\"new URL('c.ts', import.meta.url)\""), [
    'test/usage/a.ts names test/b.ts, which is not there',
  ])
  const small = (path: string) => sample(path, 'x\n'.repeat(SLIVER_LINES - 1))
  const large = (path: string) => sample(path, 'x\n'.repeat(SLIVER_LINES))
  const url = sample('src/gateway/jobs/b.ts', "new Worker(new URL('./a.ts', import.meta.url))")
  const [from, to] = ['src/gateway/jobs/a.ts', 'src/gateway/jobs/b.ts']
  const fault = `${from} has ${SLIVER_LINES - 1} lines and one importer: make it part of ${to}`
  const cases: [files: File[], found: string[]][] = [
    [[small('src/gateway/jobs/a.ts'), sample('src/gateway/jobs/b.ts', own)], [fault]],
    [
      [
        small('src/gateway/jobs/a.ts'),
        sample('src/gateway/jobs/b.ts', own),
        sample('test/gateway/jobs/a.ts', own),
      ],
      [fault],
    ],
    [[large('src/gateway/jobs/a.ts'), sample('src/gateway/jobs/b.ts', own)], []],
    [
      [
        small('src/gateway/jobs/a.ts'),
        sample('src/gateway/jobs/b.ts', own),
        sample('src/gateway/jobs/c.ts', own),
      ],
      [],
    ],
    [[small('src/gateway/jobs/a.ts'), sample('src/gateway/call/b.ts', "import '../jobs/a.ts'")], []],
    [[small('src/gateway/jobs/a.ts'), url], []],
  ]
  for (const [files, found] of cases) t.same([...slivers(files).values()], found)
  t.same(beyond(new Map([['a', 'a is small']]), ['b']), ['a is small', 'b is clean: strike it from the list'])
  t.same(beyond(new Map([['a', 'a is small']]), ['a']), [])
})

test('a function that shares its name with too many others is found', async (t) => {
  const named = (name: string, files: number) =>
    Array.from({ length: files }, (_, at) => sample(`src/${at}.ts`, `export async function ${name}() {}\n`))
  t.same(
    crowdedNames(named('nameOf', 4)).map((fault) => fault.split(':')[0]),
    ['nameOf stands in 4 files'],
  )
  t.same(crowdedNames([...named('nameOf', 3), ...named('handshake', 5)]), [])
})

test('dead files and foreign words are found', async (t) => {
  const main = sample(
    'src/main.ts',
    "import './a.ts'\nnew Worker(new URL('./task.ts', import.meta.url))\nscript('claim_slot')",
  )
  const rest = ['src/a.ts', 'src/task.ts', 'src/dead.ts', 'src/scripts/claim_slot.lua', 'src/scripts/old.lua']
  const dead = deadFiles([main, ...rest.map((path) => sample(path, ''))])
  t.same(
    dead,
    ['src/dead.ts', 'src/scripts/old.lua'].map((path) => `${path} is reached from no entry point`),
  )
  t.same(
    foreignWords('README.md', `see ${['', 'work', 'main'].join('/')} and https://npm.example/`, [
      'npm.example',
    ]).length,
    2,
  )
  t.same(foreignWords('README.md', 'a path/work/main and http://example.com', ['npm.example']), [])
  t.ok(registryHosts().length >= 2)
})

t.equal(LAYERS.flat().length, new Set(LAYERS.flat()).size, 'no folder is in two layers')

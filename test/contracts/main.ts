import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { load } from 'js-yaml'
import { table } from '../../src/cli/arguments.ts'
import { PROVIDERS } from '../../src/gateway/providers/index.ts'
import { checkContract, type Report, subjectsOf } from './check.ts'
import { asSchema, Contract } from './contract.ts'
import { VENDORS, type Vendor } from './vendors.ts'

const HELP = `npm run check:contracts -- FOLDER [--vendor NAME]

Holds the adapters to the vendors' own OpenAPI files, which you put into a folder: every operation with every model,
option and pair of options is made into a request and validated (path, method, query, credential, JSON and forms), and
answers that fit the contract (full, minimal, null where allowed, zeros left out, one thing missing at a time) have to
be read without losing a word. The gateway's own doors in a vendor's format are held to it, too: responses in OpenAI's,
whole and as events, and all of Deepgram's and ElevenLabs': every documented value of every option and every pair of
options is asked for, what becomes of it has to be what the door's table says, and every answer has to fit. Nothing is
sent to anybody.

Files that are looked for; a vendor without one is skipped:
${VENDORS.map(({ name, files }) => `  ${name.padEnd(11)}${files.join(', ')}`).join('\n')}

Ends with 1 when anything is wrong, or when there was nothing to check.
`

const FAULTS_SHOWN = 40

/** @returns the exit code */
export async function main(args: readonly string[], print: (text: string) => void): Promise<number> {
  const options = { vendor: { type: 'string' }, help: { type: 'boolean' } } as const
  const { values, positionals } = parseArgs({ args: [...args], options, allowPositionals: true })
  const [folder] = positionals
  if (values.help === true || folder === undefined) {
    print(HELP)
    return values.help === true ? 0 : 2
  }
  const wanted = VENDORS.filter(({ name }) => (values.vendor ?? name).toLowerCase() === name.toLowerCase())
  const checked: { vendor: Vendor; file: string; report: Report }[] = []
  const skipped: string[] = []
  for (const vendor of wanted) {
    const file = vendor.files.find((name) => existsSync(join(folder, name)))
    if (file === undefined) skipped.push(`${vendor.name} (${vendor.files[0]})`)
    else {
      const document = asSchema(load(readFileSync(join(folder, file), 'utf8')))
      const report = await checkContract(new Contract(document), vendor, subjectsOf(vendor, PROVIDERS))
      checked.push({ vendor, file, report })
    }
  }
  print(reportOf(checked))
  if (skipped.length > 0)
    print(`\nSkipped, not in ${folder}: ${skipped.length} of ${wanted.length}: ${skipped.join(', ')}\n`)
  const isGood = checked.length > 0 && checked.every(({ report }) => report.faults.length === 0)
  return isGood ? 0 : 1
}

function reportOf(checked: readonly { vendor: Vendor; file: string; report: Report }[]): string {
  const rows = checked.map(({ vendor, file, report: { requests, passedOn, answers, faults } }) => [
    vendor.name,
    file,
    `${requests.valid}/${requests.tried}`,
    `${requests.byCaller}`,
    `${requests.beyond}`,
    `${requests.tried - requests.valid - requests.byCaller - requests.beyond}`,
    `${passedOn}`,
    `${answers.right}/${answers.tried}`,
    `${faults.length}`,
  ])
  const head = [
    'VENDOR',
    'FILE',
    'REQUESTS VALID',
    "CALLER'S VALUES",
    'BEYOND THE FILE',
    'INVALID',
    'PASSED ON',
    'ANSWERS RIGHT',
    'FAULTS',
  ]
  const details = checked.flatMap(({ vendor, report }) =>
    report.faults
      .slice(0, FAULTS_SHOWN)
      .map(({ what, count, where }) => `\n${vendor.name}, ${count} times: ${what}\n  first: ${where}\n`),
  )
  return `${table([head, ...rows])}${details.join('')}`
}

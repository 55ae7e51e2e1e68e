import { type CutSource, copyCut } from './cut-copy.ts'

/** Matches a statement of one line that tells the recorder something; its answer is kept or not. */
const STATEMENT = /^ *(?:(?:this\.#)?\w+ = )?(?:(?:node|deps)\.)?recorder\??\.\w+\(.*\n/gm
/** Matches a call of the recorder in any other form. */
const LEFT = /\brecorder\??\.\w+\(/

const CUTS_LEAST = 6

/** A source in which the console is told nothing. @throws Error when something tells it in another form */
export function withoutRecorder(source: string): CutSource {
  let cuts = 0
  const text = source.replace(STATEMENT, () => {
    cuts += 1
    return ''
  })
  const left = text.split('\n').find((line) => LEFT.test(line))
  if (left !== undefined) throw new Error(`this line tells the recorder in no known form: ${left.trim()}`)
  return { text, cuts }
}

/** A copy of the tree in which nothing is told to the console, of requests, jobs and the node. */
export function copyUnrecorded(): string {
  const files = '{gateway/node/serve.ts,gateway/api/endpoint.ts,gateway/jobs/*.ts}'
  return copyCut('recorder', { files, cut: withoutRecorder, least: CUTS_LEAST })
}

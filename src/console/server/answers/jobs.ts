import type { Static } from 'typebox'
import type * as shapes from '../answer-shapes.ts'

/** GET /workspaces/:workspace/jobs → {jobs}, newest first */
export type JobAnswer = Static<typeof shapes.Job>

/** GET /workspaces/:workspace/jobs/:job; its runs are newest first, with what was tried in each. */
export type JobDetailAnswer = Static<typeof shapes.JobDetail>

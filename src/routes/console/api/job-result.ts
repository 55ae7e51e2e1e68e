import { GatewayError } from '../../../errors.ts'
import type { EdgeRoute } from '../../../inbound/server.ts'
import { openResult } from '../../job-view.ts'
import type { ConsoleDesk } from '../desk.ts'
import { type ConsoleCall, consoleEndpoint, WrittenReply } from '../endpoint.ts'
import { jobIn } from './job-answers.ts'

const PATH = '/workspaces/:workspace/jobs/:job/result'

/** The transcript of a job as its caller gets it, for viewers of a workspace that lets its content be shown. */
export function jobResultEndpoint(desk: ConsoleDesk): EdgeRoute {
  return consoleEndpoint(desk, 'GET', PATH, {}, showResult)
}

/**
 * @throws GatewayError JOB_NOT_FOUND; PERMISSION_DENIED, also to operators, unless the workspace shows its content;
 *         NOT_FOUND when there is no result; of `openResult`
 */
async function showResult({ desk, exchange, params }: ConsoleCall<typeof PATH, unknown, unknown>) {
  const job = await jobIn(desk, params)
  if (!(await desk.doors.services.state.settings.contentShown(job.workspace)))
    throw new GatewayError(
      'PERMISSION_DENIED',
      'the workspace does not let its content be shown: one of its admins, or an operator, can switch that on',
    )
  const { result } = job
  if (result === null) throw new GatewayError('NOT_FOUND', 'the job has no result')
  const body = await openResult(job, result, exchange, desk.doors)
  return new WrittenReply({ status: 200, headers: { 'content-type': 'application/json' }, body })
}

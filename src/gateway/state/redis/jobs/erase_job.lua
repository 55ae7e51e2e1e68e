-- Deletes what was sent and heard of a transcription job; see `finish` for one that is processing.
--
-- KEYS partition never
-- ARGV id workspace app spec
--      keep_transcription_ms keep_queue_ms keep_dead_ms
-- Reply the job as fields and values, empty when there is none or it is another's
--
-- Until the end of a job that is processing its field `erased` holds the specification that is to be left.

local spec = ARGV[4]
local job = read_job(ARGV[1])
if not job or job.workspace ~= ARGV[2] or job.app ~= ARGV[3] then return {} end
if job.kind ~= 'transcription' or is_gone(job) then return {} end
if job.status == 'queued' then
  job.erased = spec
  leave_queue(job)
  abandon(job, 'cancelled', retention(5))
elseif job.status == 'processing' then
  redis.call('HSET', key('job', job.id), 'erased', spec, 'cancel', '1')
  hint('changed', job.id)
elseif not job.erased then
  erase(job, spec)
end
return show_job(job.id)

-- Hands out jobs of a partition that no worker has ended, for their usage to be recorded.
--
-- KEYS partition never
-- ARGV limit again_ms
-- Reply {more, job, …}: each job as fields and values; `more` = 1 when asking again may find others
--
-- One that is not recorded is handed out again after `again_ms`: whoever had it may have died.

local limit = tonumber(ARGV[1])
local ids = redis.call('ZRANGEBYSCORE', key('abandoned'), '-inf', digits(now_ms), 'LIMIT', 0, limit)
local jobs = { #ids == limit and 1 or 0 }
for _, id in ipairs(ids) do
  local job = read_job(id)
  if job and job.ended then
    redis.call('ZADD', key('abandoned'), digits(now_ms + ARGV[2]), id)
    table.insert(jobs, redis.call('HGETALL', key('job', id)))
  else
    redis.call('ZREM', key('abandoned'), id)
  end
end
return jobs

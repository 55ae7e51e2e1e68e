-- The newest requests of a workspace.
--
-- KEYS requests
-- ARGV max
-- Reply their records, the one that came last first
--
-- See request_steps.lua.

local requests = KEYS[1]
local max = tonumber(ARGV[1])

local records = {}
walk_back(requests, function(fields)
  records[#records + 1] = fields[4]
  return #records == max
end)
return records

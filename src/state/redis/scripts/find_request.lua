-- The request of an id that came last.
--
-- KEYS requests
-- ARGV id
-- Reply {record}; empty: there is none
--
-- See request_steps.lua.

local requests = KEYS[1]
local id = ARGV[1]

local found = {}
walk_back(requests, function(fields)
  if fields[2] ~= id then return false end
  found[1] = fields[4]
  return true
end)
return found

"""How a process learns who it is: the role makers."""

from paddle.fluid.incubate.fleet.base.role_base import Role, RoleMakerBase
from paddle.fluid.incubate.fleet.base.role_cloud import GeneralRoleMaker, PaddleCloudRoleMaker
from paddle.fluid.incubate.fleet.base.role_mpi import MPISymetricRoleMaker
from paddle.fluid.incubate.fleet.base.role_user import UserDefinedCollectiveRoleMaker, UserDefinedRoleMaker

__all__ = [
    "Role",
    "RoleMakerBase",
    "MPISymetricRoleMaker",
    "UserDefinedRoleMaker",
    "UserDefinedCollectiveRoleMaker",
    "PaddleCloudRoleMaker",
    "GeneralRoleMaker",
]

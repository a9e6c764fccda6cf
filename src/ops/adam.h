/* What adam and lamb share: their first slots, in this order. */
#ifndef PD_OPS_ADAM_H
#define PD_OPS_ADAM_H

#include "ops/opt.h"

enum {
    PD_ADAM_PARAM,
    PD_ADAM_GRAD,
    PD_ADAM_LR,
    PD_ADAM_MOMENT1,
    PD_ADAM_MOMENT2,
    PD_ADAM_BETA1_POW,
    PD_ADAM_BETA2_POW,
    PD_ADAM_INPUTS_N
};
enum { PD_ADAM_PARAM_OUT, PD_ADAM_MOMENT1_OUT, PD_ADAM_MOMENT2_OUT, PD_ADAM_OUTPUTS_N };

#define PD_ADAM_INPUTS                                                                                       \
    {"Param", 0}, {"Grad", 0}, {"LearningRate", PD_SLOT_OWN_TYPE}, {"Moment1", 0}, {"Moment2", 0},           \
        {"Beta1Pow", PD_SLOT_OWN_TYPE},                                                                      \
    {                                                                                                        \
        "Beta2Pow", PD_SLOT_OWN_TYPE                                                                         \
    }
#define PD_ADAM_OUTPUTS                                                                                      \
    {"ParamOut", 0}, {"Moment1Out", 0},                                                                      \
    {                                                                                                        \
        "Moment2Out", 0                                                                                      \
    }

extern const struct pd_opt pd_adam_slots;

#endif
